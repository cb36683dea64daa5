"""Ordering keys: messages of one account arrive in order, also when one of them fails once.

By default a subscriber is given a run of a key at once; when one of it fails, that one and all
after it come again, in order, and the subscriber may have seen the later ones already. With the
label `strict` the next message of a key is not delivered before the previous one is acknowledged.
Either way one key does not wait for another.
"""

from threading import Event

from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.types import PublisherOptions

publisher = pubsub_v1.PublisherClient(
    publisher_options=PublisherOptions(enable_message_ordering=True)
)
subscriber = pubsub_v1.SubscriberClient()
topic = publisher.topic_path("examples", "ordered-bookings")
subscription = subscriber.subscription_path("examples", "ordered-ledger")

publisher.create_topic(name=topic)
subscriber.create_subscription(
    request={
        "name": subscription,
        "topic": topic,
        "enable_message_ordering": True,
        "labels": {"fanlog-ordering": "strict"},
    }
)
for step in ("open", "deposit", "withdraw", "close"):
    for account in ("anna", "ben"):
        publisher.publish(topic, step.encode(), ordering_key=account)

booked: dict[str, list[str]] = {"anna": [], "ben": []}
has_failed, done = Event(), Event()


def book(message: pubsub_v1.subscriber.message.Message) -> None:
    step, account = message.data.decode(), message.ordering_key
    if (account, step) == ("anna", "deposit") and not has_failed.is_set():
        has_failed.set()
        message.nack()  # it comes again, and nothing of anna's before it
        return
    booked[account].append(step)
    message.ack()
    if all("close" in steps for steps in booked.values()):
        done.set()


stream = subscriber.subscribe(subscription, book)
done.wait(30)
stream.cancel()
stream.result(timeout=10)

for account, steps in booked.items():
    print(account, " ".join(steps))
