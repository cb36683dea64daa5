"""The official client for Python, unchanged, with a key file over TLS: a program of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import grpc

from access.conftest import AUTH, PROJECT, Guarded, Start
from fanlog.client.key_files import key_file, make_key_pair
from fanlog.v1 import auth_pb2 as pb
from transport.certificates import Authority

#: Knows the server's address and nothing else of it; credentials come from the environment.
PROGRAM = """
import sys
from google.api_core import exceptions
from google.cloud import pubsub_v1

options = {"api_endpoint": sys.argv[1]}
publisher = pubsub_v1.PublisherClient(client_options=options)
subscriber = pubsub_v1.SubscriberClient(client_options=options)
topic, subscription = "projects/shop/topics/orders", "projects/shop/subscriptions/billing"
publisher.create_topic(name=topic)
subscriber.create_subscription(name=subscription, topic=topic)
print("id", publisher.publish(topic, b"hello").result(timeout=20))
answer = subscriber.pull(subscription=subscription, max_messages=1)
ack_ids = [one.ack_id for one in answer.received_messages]
subscriber.acknowledge(subscription=subscription, ack_ids=ack_ids)
print("data", answer.received_messages[0].message.data.decode())
try:
    publisher.create_topic(name="projects/other/topics/orders")
except exceptions.PermissionDenied as error:
    print("denied", error.message)
"""


async def test_a_key_file_over_tls(start: Start, tmp_path: Path):
    authority = Authority.make("fanlog tests")
    certificate, key = authority.issue("localhost", tmp_path)
    ca = authority.write(tmp_path / "ca.pem")
    started = await start(tls_cert=certificate, tls_key=key)
    roots = grpc.ssl_channel_credentials(ca.read_bytes())
    endpoint = f"localhost:{started.server.port}"
    async with grpc.aio.secure_channel(endpoint, roots) as channel:
        guarded = Guarded(started.server, started.folder, channel)
        path = await _make_key(guarded, tmp_path / "key.json", endpoint)
        await guarded.grant(PROJECT, "roles/pubsub.editor", guarded.member("ci"))
        environ = os.environ | {
            "GOOGLE_APPLICATION_CREDENTIALS": str(path),
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(ca),
        }
        environ.pop("PUBSUB_EMULATOR_HOST", None)
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, endpoint),
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(program.communicate(), 60)
    assert program.returncode == 0, errors.decode()
    lines = dict(line.split(" ", 1) for line in output.decode().splitlines())
    assert lines["data"] == "hello"
    assert "pubsub.topics.create" in lines["denied"]


async def _make_key(guarded: Guarded, path: Path, endpoint: str) -> Path:
    private, public, key_id = make_key_pair()
    made = await guarded.call(
        f"{AUTH}/CreateAccount", pb.CreateAccountRequest(name="ci"), pb.Account
    )
    request = pb.AddKeyRequest(account="ci", public_key=public)
    kept = await guarded.call(f"{AUTH}/AddKey", request, pb.Account)
    assert [one.id for one in kept.keys] == [key_id]
    path.write_bytes(
        key_file(
            email=made.email,
            key_id=key_id,
            private_pem=private,
            token_uri=f"https://{endpoint}/oauth2/token",
            project="shop",
        )
    )
    return path
