"""Create a topic and a subscription, publish, pull, acknowledge."""

from google.cloud import pubsub_v1

publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
topic = publisher.topic_path("examples", "first-orders")
subscription = subscriber.subscription_path("examples", "first-billing")

publisher.create_topic(name=topic)
subscriber.create_subscription(name=subscription, topic=topic)

message_id = publisher.publish(topic, b"two chairs", region="eu").result()
print("published", message_id)  # it is on disk now

answer = subscriber.pull(subscription=subscription, max_messages=10)
for received in answer.received_messages:
    print("received", received.message.data.decode(), dict(received.message.attributes))

ack_ids = [received.ack_id for received in answer.received_messages]
subscriber.acknowledge(subscription=subscription, ack_ids=ack_ids)
print("acknowledged", len(ack_ids))
