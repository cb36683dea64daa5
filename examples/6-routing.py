"""A pattern and a filter: large orders of any region, and of regions that do not exist yet."""

from google.cloud import pubsub_v1

publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
pattern = publisher.topic_path("examples", "routing.*.orders")
subscription = subscriber.subscription_path("examples", "routing-large")


def publish(region: str, order: bytes, **attributes: str) -> None:
    topic = publisher.topic_path("examples", f"routing.{region}.orders")
    publisher.publish(topic, order, **attributes).result()


publisher.create_topic(name=publisher.topic_path("examples", "routing.eu.orders"))
subscriber.create_subscription(
    request={
        "name": subscription,
        "topic": pattern,
        "filter": "payload.amount >= 1000 AND NOT attributes:test",
    }
)
# This one comes later, and joins from its first message.
publisher.create_topic(name=publisher.topic_path("examples", "routing.us.orders"))

publish("eu", b'{"item": "two chairs", "amount": 150}')
publish("eu", b'{"item": "ten tables", "amount": 4500}')
publish("us", b'{"item": "a piano", "amount": 9000}', test="yes")
publish("us", b'{"item": "an organ", "amount": 70000}')

answer = subscriber.pull(subscription=subscription, max_messages=10).received_messages
for message in sorted((each.message for each in answer), key=lambda each: each.publish_time):
    topic = message.attributes["fanlog-topic"].rpartition("/")[2]
    print(f"{topic}: {message.data.decode()}")
subscriber.acknowledge(subscription=subscription, ack_ids=[each.ack_id for each in answer])
