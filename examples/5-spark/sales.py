"""Some sales for the other examples here to look at, and a subscription that has seen them."""

from google.cloud import pubsub_v1
from google.protobuf.duration_pb2 import Duration

publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
sales = publisher.topic_path("examples", "sales")
billing = subscriber.subscription_path("examples", "billing")

kept = {"name": sales, "message_retention_duration": Duration(seconds=86_400)}
publisher.create_topic(request=kept)
publisher.create_topic(name=publisher.topic_path("examples", "sales-counts"))
subscriber.create_subscription(name=billing, topic=sales)

publisher.publish(sales, b'{"item": "chair", "amount": 20}', region="eu").result()
publisher.publish(sales, b'{"item": "boat", "amount": 5000}', region="us").result()
publisher.publish(sales, b'{"item": "table", "amount": 1500}', region="eu").result()

received = subscriber.pull(subscription=billing, max_messages=10).received_messages
subscriber.acknowledge(subscription=billing, ack_ids=[one.ack_id for one in received])
print("sold", len(received))
