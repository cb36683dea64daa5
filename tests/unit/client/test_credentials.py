"""Credentials of a connection: on every kind of call, and in no text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from google.auth import jwt
from google.oauth2 import service_account
from google.protobuf import empty_pb2

from fanlog.client.address import ServerAddress
from fanlog.client.connection import Connection
from fanlog.client.credentials import AUDIENCE, credentials_of
from fanlog.client.key_files import key_file, make_key_pair
from fanlog.errors import InvalidArgument

EMAIL = "ci@0123456789abcdef.fanlog.internal"
PRIVATE, PUBLIC, KEY_ID = make_key_pair()
TOKEN = "flt_a-secret"


@pytest.fixture
def token_path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    path = tmp_path / "key.json"
    path.write_bytes(
        key_file(
            email=EMAIL,
            key_id=KEY_ID,
            private_pem=PRIVATE,
            token_uri="http://127.0.0.1:8085/oauth2/token",
            project="shop",
        )
    )
    return path


def of(address: str, now_s: float = 1_000_000.0, token: str = ""):
    return credentials_of(ServerAddress.parse(address), environment_token=token, now=lambda: now_s)


def test_none():
    assert of("127.0.0.1:1") is None


def test_a_token_by_file_or_by_itself(token_path):
    by_file = of(f"127.0.0.1:1?token_file={token_path}", token="another")
    by_itself = of("127.0.0.1:1", token=TOKEN)
    for found in (by_file, by_itself):
        assert found.authorization() == f"Bearer {TOKEN}"
        assert TOKEN not in repr(found) + found.name
    assert str(token_path) in by_file.name
    assert "FANLOG_TOKEN" in by_itself.name


def test_a_token_that_is_replaced_is_read_again(token_path):
    found = of(f"127.0.0.1:1?token_file={token_path}")
    fresh = token_path.with_name("fresh")
    fresh.write_text("flt_another")
    token_path.unlink()
    assert found.authorization() == f"Bearer {TOKEN}"
    os.replace(fresh, token_path)
    assert found.authorization() == "Bearer flt_another"


def test_a_key_signs_what_the_server_verifies(key_path):
    found = of(f"127.0.0.1:1?credentials={key_path}")
    token = found.authorization().removeprefix("Bearer ")
    head, claims, _, _ = jwt._unverified_decode(token)
    assert head == {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
    assert claims == {
        "iss": EMAIL,
        "sub": EMAIL,
        "aud": AUDIENCE,
        "iat": 1_000_000,
        "exp": 1_003_600,
    }
    key = service_account.Credentials.from_service_account_file(str(key_path))
    assert "PRIVATE" not in repr(found) + found.name + repr(found._signer)
    assert key.service_account_email == EMAIL


def test_the_signature_holds_by_googles_library(key_path):
    found = credentials_of(ServerAddress.parse(f"127.0.0.1:1?credentials={key_path}"))
    token = found.authorization().removeprefix("Bearer ")
    assert jwt.decode(token, certs=PUBLIC, audience=AUDIENCE)["sub"] == EMAIL


def test_a_signature_is_made_anew_before_it_ends(key_path):
    now_s = [1_000_000.0]
    address = ServerAddress.parse(f"127.0.0.1:1?credentials={key_path}")
    found = credentials_of(address, now=lambda: now_s[0])
    first = found.authorization()
    now_s[0] += 3_299
    assert found.authorization() == first
    now_s[0] += 2
    second = found.authorization()
    assert second != first
    now_s[0] -= 1_000
    assert found.authorization() not in (first, second)


def test_key_files_load_in_googles_library(key_path):
    found = service_account.Credentials.from_service_account_file(str(key_path))
    assert (found.service_account_email, found.project_id) == (EMAIL, "shop")
    assert found._token_uri == "http://127.0.0.1:8085/oauth2/token"
    assert found.signer.key_id == KEY_ID
    assert json.loads(key_path.read_bytes())["client_id"].isdigit()


def test_key_ids_are_hashes_of_keys():
    assert len(KEY_ID) == 40
    assert set(KEY_ID) <= set("0123456789abcdef")
    assert make_key_pair()[2] != KEY_ID


@pytest.mark.parametrize("host", ["broker:1", "10.0.0.1:1", "[2001:db8::1]:1"])
def test_nothing_is_sent_to_others_in_plain_text(host, token_path, key_path):
    for address, token in (
        (f"{host}?token_file={token_path}", ""),
        (f"{host}?credentials={key_path}", ""),
        (host, TOKEN),
    ):
        with pytest.raises(
            InvalidArgument, match="in plain text, where others can read"
        ) as refused:
            of(address, token=token)
        assert host in refused.value.message
        assert TOKEN not in refused.value.message
    assert of(f"https://{host}?token_file={token_path}") is not None


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"two secrets", b"secret\nsecret", "sécret".encode(), b"sec\x00ret"]
)
def test_files_without_a_token(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="has no token") as refused:
        of(f"127.0.0.1:1?token_file={path}")
    assert "secret" not in refused.value.message
    with pytest.raises(InvalidArgument, match="No such file"):
        of(f"127.0.0.1:1?token_file={path}.missing")


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'"secret"',
        b'{"client_email": "a", "private_key_id": "b"}',
        b'{"client_email": "a", "private_key_id": "b", "private_key": "secret"}',
    ],
)
def test_files_without_a_key(tmp_path, content):
    path = tmp_path / "key.json"
    path.write_bytes(content)
    with pytest.raises(
        InvalidArgument, match="is not the key file of a service account"
    ) as refused:
        of(f"127.0.0.1:1?credentials={path}")
    assert "secret" not in refused.value.message
    assert refused.value.__cause__ is None


class Heard:
    """A server that remembers who calls, by method, and refuses nobody."""

    def __init__(self) -> None:
        self.callers: dict[str, str] = {}
        self.endpoint = ""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        name = details.method
        self.callers[name] = dict(details.invocation_metadata).get("authorization", "")
        reply = {"response_serializer": lambda reply: reply.SerializeToString()}
        if name.endswith("Stream"):
            return grpc.unary_stream_rpc_method_handler(
                lambda *_: iter([empty_pb2.Empty()]), **reply
            )
        if name.endswith("Upload"):
            return grpc.stream_unary_rpc_method_handler(lambda *_: empty_pb2.Empty(), **reply)
        return grpc.unary_unary_rpc_method_handler(lambda *_: empty_pb2.Empty(), **reply)


@pytest.fixture
def heard() -> Iterator[Heard]:
    found = Heard()
    with futures.ThreadPoolExecutor(max_workers=2) as pool:
        server = grpc.server(pool, handlers=[found])
        found.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        yield found
        server.stop(None).wait()


def test_every_kind_of_call_says_who_calls(heard, token_path, key_path, monkeypatch):
    monkeypatch.delenv("FANLOG_TOKEN", raising=False)
    for given in ({}, {"token_file": str(token_path)}, {"credentials": str(key_path)}):
        with Connection(heard.endpoint, **given) as connection:
            connection.call("s/Unary", empty_pb2.Empty(), empty_pb2.Empty)
            list(connection.stream("s/Stream", empty_pb2.Empty(), empty_pb2.Empty))
            connection.upload("s/Upload", [b""], empty_pb2.Empty)
            assert TOKEN not in repr(connection) + connection.endpoint
        assert heard.callers.keys() == {"/s/Unary", "/s/Stream", "/s/Upload"}
        [caller] = set(heard.callers.values())
        if "token_file" in given:
            assert caller == f"Bearer {TOKEN}"
        elif "credentials" in given:
            token = caller.removeprefix("Bearer ")
            assert jwt.decode(token, certs=PUBLIC, audience=AUDIENCE)["iss"] == EMAIL
        else:
            assert caller == ""
