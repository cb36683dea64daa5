"""Push over gRPC: a program that takes messages, many to a call, and refuses some of them.

The server must be allowed to reach this machine, as `make run` allows it. For other languages,
stubs are made of `src/fanlog/v1/receiver.proto`.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import grpc
from google.cloud import pubsub_v1

from fanlog.v1.receiver_pb2 import ReceiveRequest, ReceiveResponse, Refusal

all_came = Event()


def receive(request, context):
    refusals = []
    for one in request.messages:
        text = one.message.data.decode()
        if text.startswith("half"):
            reason = "we sell whole chairs only"
            refusals.append(Refusal(ack_id=one.ack_id, reason=reason, terminal=True))
        else:
            print("took", text)
        if text == "the end":
            all_came.set()
    # What is not refused is acknowledged. An exception would nack all of them.
    return ReceiveResponse(refusals=refusals)


handler = grpc.unary_unary_rpc_method_handler(
    receive, ReceiveRequest.FromString, ReceiveResponse.SerializeToString
)
server = grpc.server(ThreadPoolExecutor(8))
server.add_generic_rpc_handlers(
    (grpc.method_handlers_generic_handler("fanlog.v1.Receiver", {"Receive": handler}),)
)
port = server.add_insecure_port("127.0.0.1:0")
server.start()

publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
topic = publisher.topic_path("examples", "receiver-chairs")
subscription = subscriber.subscription_path("examples", "receiver-shop")
dead_letters = subscriber.subscription_path("examples", "receiver-shop.dead-letters")
publisher.create_topic(name=topic)
subscriber.create_subscription(
    request={
        "name": subscription,
        "topic": topic,
        "push_config": {"push_endpoint": f"grpc://127.0.0.1:{port}"},
        "labels": {"fanlog-dead-letter": "auto"},
    }
)
for text in ("two chairs", "half a chair", "the end"):
    publisher.publish(topic, text.encode()).result()
all_came.wait(60)

letter = subscriber.pull(subscription=dead_letters, max_messages=1).received_messages[0]
print("dead letter:", letter.message.data.decode())
print("because of", letter.message.attributes["fanlog-dead-letter-reason"])
subscriber.delete_subscription(subscription=subscription)
server.stop(None)
