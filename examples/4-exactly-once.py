"""Exactly-once delivery: an acknowledgement is confirmed, and one of a lost lease is refused."""

from threading import Event

from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError

publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
topic = publisher.topic_path("examples", "once-payments")
subscription = subscriber.subscription_path("examples", "once-bank")

publisher.create_topic(name=topic)
subscriber.create_subscription(
    request={"name": subscription, "topic": topic, "enable_exactly_once_delivery": True}
)
publisher.publish(topic, b"pay 10").result()

done = Event()


def pay(message: pubsub_v1.subscriber.message.Message) -> None:
    print(message.data.decode(), "->", message.ack_with_response().result(timeout=30).name)
    try:
        message.ack_with_response().result(timeout=30)
    except AcknowledgeError as error:
        print("once more ->", error.error_code.name)
    done.set()


stream = subscriber.subscribe(subscription, pay)
done.wait(60)
stream.cancel()
stream.result(timeout=10)
