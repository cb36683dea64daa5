"""Dead letters: what fails too often is set aside, with the reason, and can be read.

The label makes the topic for the dead letters and a subscription on it, both named after ours.
"""

from google.cloud import pubsub_v1

publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
topic = publisher.topic_path("examples", "letters-invoices")
subscription = subscriber.subscription_path("examples", "letters-printer")
dead_letters = subscriber.subscription_path("examples", "letters-printer.dead-letters")

publisher.create_topic(name=topic)
subscriber.create_subscription(
    request={
        "name": subscription,
        "topic": topic,
        "labels": {"fanlog-dead-letter": "auto"},
        "dead_letter_policy": {"max_delivery_attempts": 3},
    }
)
publisher.publish(topic, b"not an invoice").result()

for _ in range(3):
    received = subscriber.pull(subscription=subscription, max_messages=1).received_messages[0]
    print("attempt", received.delivery_attempt, "fails")
    subscriber.modify_ack_deadline(
        subscription=subscription, ack_ids=[received.ack_id], ack_deadline_seconds=0
    )

letter = subscriber.pull(subscription=dead_letters, max_messages=1).received_messages[0]
print("dead letter:", letter.message.data.decode())
print("because of", letter.message.attributes["fanlog-dead-letter-reason"])
subscriber.acknowledge(subscription=dead_letters, ack_ids=[letter.ack_id])
