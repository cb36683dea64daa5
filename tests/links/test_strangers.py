"""Whoever knocks at the port of links: nodes get in, and others get nothing."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager

import grpc
import pytest

from fanlog.cluster.link import incoming, internal, server
from fanlog.cluster.link.call import NeverLeft
from fanlog.cluster.link.credentials import NodeCredentials, read_credentials
from fanlog.cluster.link.handshake import (
    NONCE_BYTES,
    Greeting,
    HandshakeRefused,
    find_secret,
    prove,
)
from fanlog.cluster.link.link import Link
from fanlog.errors import ConfigError
from fanlog.http2 import codes
from fanlog.model.attributes import LINK_ADDRESS, LINK_CALLER
from fanlog.transport.messages import frame_message
from fanlog.transport.tls import TlsFiles
from links.conftest import Owned, status_of
from links.nodes import SECRET, Node, backend, channel_to, passport, running_nodes, until
from transport.certificates import Authority
from transport.peer import Peer, call, data, headers

OTHER = b"another secret that is long enough, too"
STRANGER = b"this port is for nodes of a cluster alone"


@asynccontextmanager
async def owner(**settings):
    owned = Owned()
    node = Node("owner", owned.forms, status_of=status_of, **settings)
    async with running_nodes(node):
        node.gateway.serve_locally(backend(owned.methods))
        yield node


@asynccontextmanager
async def link_to(node: Node, credentials: NodeCredentials, cluster: str = "shop"):
    shown = passport("other", credentials)
    if cluster != "shop":
        shown = type(shown)(cluster=cluster, node="other", credentials=credentials)
    link = Link("owner", f"127.0.0.1:{node.link_port}", shown)
    try:
        yield link
    finally:
        link.close()


async def greet(peer: Peer, nonce: bytes = bytes(NONCE_BYTES)) -> Greeting:
    """The owner's greeting."""
    ours = Greeting(cluster="shop", node="rubbish", nonce=nonce)
    peer.send(headers(1, call(internal.GREET)), data(1, frame_message(ours.write()), ends=True))
    await peer.until_answered(1)
    [answer] = peer.of(codes.DATA, 1)
    return Greeting.read(answer.payload[5:])


# Secrets.


async def test_a_node_gets_in():
    async with owner() as node, link_to(node, NodeCredentials(secrets=(SECRET,))) as link:
        assert await link.ask(internal.ANNOUNCE, bytes(8)) == b"noted"
        assert (node.link_server.node_count, node.link_server.refused) == (1, 0)


async def test_a_node_without_the_secret_does_not():
    async with owner() as node, link_to(node, NodeCredentials(secrets=(OTHER,))) as link:
        with pytest.raises(NeverLeft, match="does not have the secret"):
            await link.ask(internal.ANNOUNCE, bytes(8))
        assert node.link_server.refused == 1
        await until(lambda: node.link_server.counts.connections["grpc"] == 0)


async def test_a_secret_is_replaced_in_turn():
    """The owner believes the old one and the new one; nodes show the first that they have."""
    both = NodeCredentials(secrets=(OTHER, SECRET))
    async with owner(credentials=both) as node:
        for shown in ((SECRET,), (OTHER,), (SECRET, OTHER)):
            async with link_to(node, NodeCredentials(secrets=shown)) as link:
                assert await link.ask(internal.ANNOUNCE, bytes(8)) == b"noted"


async def test_a_node_does_not_believe_an_owner_without_the_secret(monkeypatch):
    """It takes whatever proof comes, and has none of its own."""

    # Both sides have it of the same module.
    monkeypatch.setattr(server.handshake, "find_secret", _only_the_node(find_secret))
    ours, theirs = (NodeCredentials(secrets=(secret,)) for secret in (OTHER, SECRET))
    async with owner(credentials=ours) as node, link_to(node, theirs) as link:
        with pytest.raises(NeverLeft, match="does not have the secret"):
            await link.ask(internal.ANNOUNCE, bytes(8))


def _only_the_node(real):
    def find(secrets, proof, side, caller, theirs):
        return b"what I made up" if side == "caller" else real(secrets, proof, side, caller, theirs)

    return find


async def test_a_node_of_another_cluster_does_not_get_in():
    credentials = NodeCredentials(secrets=(SECRET,))
    async with owner() as node, link_to(node, credentials, cluster="office") as link:
        with pytest.raises(NeverLeft, match="is of the cluster 'office', this one of 'shop'"):
            await link.ask(internal.ANNOUNCE, bytes(8))


async def test_a_proof_is_good_for_one_connection():
    """What was heard on one connection is of no use on another, nor a second time on this one."""
    async with owner() as node:
        first, second = await Peer.open(node.link_port), await Peer.open(node.link_port)
        ours = Greeting(cluster="shop", node="rubbish", nonce=bytes(NONCE_BYTES))
        theirs = await greet(first)
        await greet(second)
        proof = frame_message(prove(SECRET, "caller", ours, theirs))
        asked = [headers(3, call(internal.PROVE)), data(3, proof, ends=True)]
        second.send(*asked)
        assert (await second.until_answered(3))[b"grpc-status"] == b"16"
        await second.until(lambda _: False)
        second.close()
        first.send(*asked)
        assert (await first.until_answered(3))[b"grpc-status"] == b"0"
        first.close()


def test_an_answer_proves_nothing_to_the_one_who_gave_it():
    """A proof that is sent back is none: each side has its own."""
    one = Greeting(cluster="shop", node="a", nonce=os.urandom(NONCE_BYTES))
    two = Greeting(cluster="shop", node="b", nonce=os.urandom(NONCE_BYTES))
    proof = prove(SECRET, "caller", one, two)
    assert find_secret((OTHER, SECRET), proof, "caller", one, two) == SECRET
    for wrong in (
        (proof, "owner", one, two),
        (proof, "caller", two, one),
        (b"", "caller", one, two),
    ):
        with pytest.raises(HandshakeRefused):
            find_secret((SECRET,), *wrong)


# Rubbish.


@pytest.mark.parametrize("path", ["/t.T/Echo", internal.ANNOUNCE, internal.GONE, internal.HTTP])
async def test_nothing_is_served_before_the_proof(path):
    async with owner() as node:
        peer = await Peer.open(node.link_port)
        asked = call(path, (b"fanlog-link-address", b"10.0.0.1"))
        peer.send(headers(1, asked), data(1, frame_message(b"x"), ends=True))
        answer = await peer.until_answered(1)
        assert answer[b"grpc-status"] == b"16"
        assert answer[b"grpc-message"] == STRANGER
        # It hangs up, too.
        await peer.until(lambda _: False)
        assert (node.announced, node.gateway.counts.forwarded) == ([], 0)
        peer.close()


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"[1]", b'{"version": 1}', b"\xff" * 100, bytes(5_000)],
    ids=["nothing", "empty", "list", "half", "bytes", "long"],
)
async def test_a_greeting_of_rubbish_is_refused(raw):
    async with owner() as node:
        peer = await Peer.open(node.link_port)
        peer.send(headers(1, call(internal.GREET)), data(1, frame_message(raw), ends=True))
        assert (await peer.until_answered(1))[b"grpc-status"] in (b"8", b"9")
        peer.close()


async def test_a_greeting_of_another_version_is_refused():
    async with owner() as node:
        peer = await Peer.open(node.link_port)
        ours = Greeting(cluster="shop", node="new", nonce=bytes(NONCE_BYTES), version=2)
        peer.send(headers(1, call(internal.GREET)), data(1, frame_message(ours.write()), ends=True))
        answer = await peer.until_answered(1)
        assert answer[b"grpc-status"] == b"9"
        assert b"speaks version 2 of links" in answer[b"grpc-message"]
        peer.close()


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01" + bytes(50)])
async def test_other_protocols_are_hung_up_on(raw):
    async with owner() as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.link_port)
        writer.write(raw)
        assert await _rest(reader) == b""
        writer.close()
        assert node.link_server.counts.given_up["unknown"] == 1


async def test_who_proves_nothing_is_cut_off(monkeypatch):
    monkeypatch.setattr(server, "PROOF_S", 0.2)
    monkeypatch.setattr(server, "SWEEP_S", 0.05)
    async with owner() as node:
        peer = await Peer.open(node.link_port)
        await greet(peer)
        await peer.until(lambda _: False)
        assert node.link_server.counts.given_up["late"] == 1
        peer.close()


async def test_strangers_do_not_push_a_node_out(monkeypatch):
    monkeypatch.setattr(server.bounds, "LINK_CONNECTIONS_MAX", 8)
    async with owner() as node, link_to(node, NodeCredentials(secrets=(SECRET,))) as link:
        assert await link.ask(internal.ANNOUNCE, bytes(8)) == b"noted"
        knocking = [await Peer.open(node.link_port) for _ in range(20)]
        await until(lambda: node.link_server.counts.sent_away > 5)
        assert await link.ask(internal.ANNOUNCE, bytes(8)) == b"noted"
        assert link.opened == 1
        for peer in knocking:
            peer.close()


async def test_a_node_that_is_silent_is_given_up(monkeypatch):
    monkeypatch.setattr(server, "SILENCE_S", 0.3)
    monkeypatch.setattr(server, "SWEEP_S", 0.05)
    async with owner() as node, link_to(node, NodeCredentials(secrets=(SECRET,))) as link:
        await link.ask(internal.ANNOUNCE, bytes(8))
        await until(lambda: node.link_server.counts.given_up["silent"] == 1)
        await until(lambda: not link.is_open)


# What is said for others.


@pytest.mark.parametrize("name", [LINK_CALLER, LINK_ADDRESS, "fanlog-link-certificate-bin"])
@pytest.mark.parametrize("at_owner", [True, False])
async def test_a_caller_cannot_say_that_it_is_somebody_else(pair, name, at_owner):
    value = b"{}" if name.endswith("-bin") else "10.0.0.1"
    async with channel_to(pair.owner if at_owner else pair.other) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/t.T/Tell")(b"x", metadata=((name, value),))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "is said by nodes of a cluster alone" in refused.value.details()
    assert pair.owned.told == []


async def test_a_node_has_to_say_for_whom_it_forwards():
    async with owner() as node, link_to(node, NodeCredentials(secrets=(SECRET,))) as link:
        await link.ask(internal.ANNOUNCE, bytes(8))
        # Nothing at all, and a number that was never told of.
        with pytest.raises(NeverLeft):
            await link.ask("/t.T/Echo", b"x")


async def test_headers_of_nodes_that_cannot_be_read():
    wrong = incoming._forwarded_head
    for name, value in ((LINK_CALLER, "x"), ("fanlog-link-certificate-bin", b"[1")):
        head = _head(((LINK_ADDRESS, "10.0.0.1"), (name, value)))
        assert wrong(head) is incoming._UNREADABLE


def _head(metadata):
    from fanlog.transport.methods import CallHead, RpcMethod

    return CallHead(RpcMethod("/t.T/Echo", 10), metadata, None, b"", False)


# Certificates.


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("nodes")


def files(authority: Authority, name: str, tmp_path, ca: Authority | None = None) -> TlsFiles:
    certificate, key = authority.issue(name, tmp_path)
    return TlsFiles(certificate, key, (ca or authority).write(tmp_path / f"{name}-ca.pem"))


async def test_certificates_of_the_clusters_authority_are_enough(authority, tmp_path):
    ours = NodeCredentials(tls=files(authority, "owner", tmp_path))
    theirs = NodeCredentials(tls=files(authority, "other", tmp_path))
    async with owner(credentials=ours) as node, link_to(node, theirs) as link:
        assert await link.ask(internal.ANNOUNCE, bytes(8)) == b"noted"


async def test_other_certificates_are_not(authority, tmp_path):
    ours = NodeCredentials(tls=files(authority, "owner", tmp_path))
    stranger = Authority.make("strangers")
    wrong = NodeCredentials(tls=files(stranger, "other", tmp_path, ca=authority))
    async with owner(credentials=ours) as node, link_to(node, wrong) as link:
        with pytest.raises(NeverLeft):
            await link.ask(internal.ANNOUNCE, bytes(8))
        assert node.link_server.node_count == 0


async def test_nor_is_an_owner_with_another_one(authority, tmp_path):
    stranger = Authority.make("strangers")
    ours = NodeCredentials(tls=files(stranger, "owner", tmp_path, ca=authority))
    theirs = NodeCredentials(tls=files(authority, "other", tmp_path))
    async with owner(credentials=ours) as node, link_to(node, theirs) as link:
        with pytest.raises(NeverLeft, match="certificate verify failed"):
            await link.ask(internal.ANNOUNCE, bytes(8))


async def test_with_both_both_are_needed(authority, tmp_path):
    tls = files(authority, "owner", tmp_path)
    ours = NodeCredentials(secrets=(SECRET,), tls=tls)
    other = files(authority, "other", tmp_path)
    async with owner(credentials=ours) as node:
        async with link_to(node, NodeCredentials(tls=other)) as link:
            with pytest.raises(NeverLeft, match="does not have the secret"):
                await link.ask(internal.ANNOUNCE, bytes(8))
        async with link_to(node, NodeCredentials(secrets=(SECRET,), tls=other)) as link:
            assert await link.ask(internal.ANNOUNCE, bytes(8)) == b"noted"
        async with link_to(node, NodeCredentials(secrets=(SECRET,))) as link:
            with pytest.raises(NeverLeft):
                await link.ask(internal.ANNOUNCE, bytes(8))


def test_credentials_are_read_from_files(tmp_path, caplog):
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n\n" + OTHER + b"\n")
    path.chmod(0o600)
    assert read_credentials(secret_file=path).secrets == (SECRET, OTHER)
    assert caplog.text == ""
    path.chmod(0o644)
    read_credentials(secret_file=path)
    assert "action=node_secret_shared" in caplog.text
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="must have 32 characters or more"):
        read_credentials(secret_file=path)
    for wrong in ({}, {"secret_file": tmp_path / "none"}, {"certificate": path, "key": path}):
        with pytest.raises(ConfigError):
            read_credentials(**wrong)
    missing = TlsFiles(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    for make in (NodeCredentials.server_tls, NodeCredentials.client_context):
        with pytest.raises(ConfigError, match="the certificate of this node"):
            make(NodeCredentials(tls=missing))


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""
