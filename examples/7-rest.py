"""The same over REST: create, publish, pull, acknowledge. No client library is needed."""

import base64
import sys

import requests

server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8086"


def post(path, body):
    answer = requests.post(f"{server}/v1/{path}", json=body, timeout=60)
    answer.raise_for_status()
    return answer.json() if answer.content else None


post("topics", {"name": "rest-orders"})
post("subscriptions", {"name": "rest-billing", "topic": "rest-orders"})

message = {"data": base64.b64encode(b"two chairs").decode(), "attributes": {"region": "eu"}}
published = post("topics/rest-orders:publish", {"messages": [message]})
print("published", published["message_ids"][0])  # it is on disk now

pulled = post("subscriptions/rest-billing:pull", {"max_messages": 10})
for received in pulled["received_messages"]:
    data = base64.b64decode(received["message"]["data"])
    print("received", data.decode(), received["message"]["attributes"])

ack_ids = [received["ack_id"] for received in pulled["received_messages"]]
post("subscriptions/rest-billing:ack", {"ack_ids": ack_ids})
print("acknowledged", len(ack_ids))
