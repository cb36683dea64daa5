"""Transactional outbox: a message is published if, and only if, the transaction commits."""

import sqlite3
import tempfile
from pathlib import Path

from fanlog import Client, types
from fanlog.outbox import Outbox, Relay

topic = "projects/examples/topics/outbox-orders"
subscription = "projects/examples/subscriptions/outbox-orders"
path = Path(tempfile.mkdtemp()) / "shop.db"

shop = sqlite3.connect(path)
shop.execute("CREATE TABLE orders (item TEXT)")
outbox = Outbox()
outbox.create(shop)
shop.commit()


def order(item: str) -> None:
    shop.execute("INSERT INTO orders VALUES (?)", [item])
    outbox.add(shop, topic, item.encode(), key="anna")


order("a piano")
shop.rollback()
for item in ("two chairs", "a table"):
    order(item)
    shop.commit()

with Client() as client:
    client.create_topic(types.Topic(name=topic))
    client.create_subscription(
        types.Subscription(name=subscription, topic=topic, enable_message_ordering=True)
    )
    print("published", Relay(lambda: sqlite3.connect(path), client).drain().published)
    for received in client.pull(subscription, max_messages=10):
        print("received", received.message.data.decode())
        client.acknowledge(subscription, [received.ack_id])
shop.close()
