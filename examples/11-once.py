"""Idempotent consumer: a message comes twice, and is worked on once, in the program's database."""

import sqlite3

from fanlog import Client, types
from fanlog.consumers import once

topic = "projects/examples/topics/idempotent-payments"
subscription = "projects/examples/subscriptions/idempotent-bank"

bank = sqlite3.connect(":memory:")
bank.execute("CREATE TABLE payments (amount INTEGER)")


@once(bank)
def pay(message: types.PubsubMessage) -> str:
    bank.execute("INSERT INTO payments VALUES (?)", [int(message.data)])
    return "paid"


with Client() as client:
    client.create_topic(types.Topic(name=topic))
    client.create_subscription(types.Subscription(name=subscription, topic=topic))
    client.publish(topic, [types.PubsubMessage(data=b"10")])
    for attempt in (1, 2):
        [received] = client.pull(subscription, max_messages=1)
        print("attempt", attempt, pay(received.message) or "duplicate")
        bank.commit()
        if attempt == 1:  # as if this program had been killed before it could acknowledge
            client.nack(subscription, [received.ack_id])
        else:
            client.acknowledge(subscription, [received.ack_id])

print("payments", bank.execute("SELECT amount FROM payments").fetchall())
bank.close()
