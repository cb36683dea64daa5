"""An alert is a message: a backlog that is too long is told of, and that it is over."""

import base64
import json
import sys

import requests

server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8086"
project = "projects/fanlog"


def post(path, body):
    answer = requests.post(f"{server}/v1/{path}", json=body, timeout=60)
    answer.raise_for_status()
    return answer.json() if answer.content else None


post("topics", {"name": "alerted-orders"})
post("subscriptions", {"name": "alerted-billing", "topic": "alerted-orders"})

# The topic fanlog.alerts is made with the first rule of a project.
rule = {
    "condition": "BACKLOG_MESSAGES",
    "subscription": f"{project}/subscriptions/alerted-billing",
    "limit": 1,
    "minimumTime": "0s",
}
post(f"{project}/alerts?alertId=billing-behind", rule)
post("subscriptions", {"name": "on-call", "topic": "fanlog.alerts"})


def next_alert():
    received = []
    while not received:
        received = post("subscriptions/on-call:pull", {"max_messages": 1})["received_messages"]
    post("subscriptions/on-call:ack", {"ack_ids": [received[0]["ack_id"]]})
    message = received[0]["message"]
    text = json.loads(base64.b64decode(message["data"]))["text"]
    print(message["attributes"]["fanlog-alert-state"], "-", text)


data = base64.b64encode(b"a chair").decode()
post("topics/alerted-orders:publish", {"messages": [{"data": data}] * 2})
next_alert()

waiting = post("subscriptions/alerted-billing:pull", {"max_messages": 10})["received_messages"]
post("subscriptions/alerted-billing:ack", {"ack_ids": [one["ack_id"] for one in waiting]})
next_alert()
