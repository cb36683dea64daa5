"""TLS: both protocols by ALPN, clients that must show a certificate, files that change."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

import grpc
import pytest
import uvloop
from cryptography.hazmat.primitives.serialization import Encoding

from fanlog.errors import ConfigError
from fanlog.transport.tls import Tls, TlsFiles
from transport.certificates import Authority
from transport.conftest import serving


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("test authority")


@pytest.fixture
def files(authority, tmp_path) -> TlsFiles:
    certificate, key = authority.issue("server", tmp_path)
    return TlsFiles(certificate, key)


async def say_hello(port: int, context: ssl.SSLContext) -> tuple[bytes, str | None, bytes]:
    """One HTTP/1.1 request; what came, what was agreed to be spoken, and the certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    spoken = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    found = await reader.read()
    writer.close()
    return found, spoken, shown


def client_context(authority: Authority, *protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cadata=authority.certificate.public_bytes(Encoding.PEM).decode("ascii")
    )
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def credentials(authority: Authority, *own: bytes) -> grpc.ChannelCredentials:
    roots = authority.certificate.public_bytes(Encoding.PEM)
    return grpc.ssl_channel_credentials(roots, *reversed(own))


@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2", "http/1.1")])
async def test_rest_over_tls(authority, files, protocols):
    async with serving(Tls(files)) as world:
        context = client_context(authority, *protocols)
        found, spoken, _ = await say_hello(world.port, context)
        assert found.endswith(b"https GET 0\n")
        assert spoken == ("http/1.1" if protocols else None)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("cut", [1, 5, 100, None])
def test_a_hello_that_is_there_before_its_connection_is_taken(authority, files, new_loop, cut):
    """A loop that is busy takes a connection late; the client's first bytes are there by then."""

    async def shake_hands() -> None:
        loop = asyncio.get_running_loop()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
        async with serving(Tls(files)) as world:
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            hello = outgoing.read()
            with socket.create_connection(("127.0.0.1", world.port)) as sock:
                sock.sendall(hello[:cut])
                sock.setblocking(False)
                if cut is not None:
                    await asyncio.sleep(0.05)
                    sock.sendall(hello[cut:])
                while True:
                    incoming.write(await asyncio.wait_for(loop.sock_recv(sock, 65536), 5))
                    try:
                        client.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        continue
                await loop.sock_sendall(sock, outgoing.read())

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(shake_hands())


async def test_grpc_over_tls(authority, files):
    async with serving(Tls(files)) as world:
        endpoint = f"localhost:{world.port}"
        async with grpc.aio.secure_channel(endpoint, credentials(authority)) as channel:
            echo = channel.unary_unary("/t.T/Echo")
            for size in (1, 100_000, 3_000_000):
                assert await echo(bytes(size)) == bytes(size)


async def test_plain_text_on_a_port_with_tls_is_refused(files):
    async with serving(Tls(files)) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200" not in await reader.read()
        writer.close()


async def test_clients_must_show_a_certificate(authority, files, tmp_path):
    others = Authority.make("another authority")
    mutual = TlsFiles(files.certificate, files.key, authority.write(tmp_path / "ca.pem"))
    async with serving(Tls(mutual)) as world:
        endpoint = f"localhost:{world.port}"
        ours = [path.read_bytes() for path in authority.issue("client", tmp_path)]
        theirs = [path.read_bytes() for path in others.issue("stranger", tmp_path)]
        async with grpc.aio.secure_channel(endpoint, credentials(authority, *ours)) as channel:
            assert await channel.unary_unary("/t.T/Echo")(b"known", timeout=10) == b"known"
        for own in ([], theirs):
            async with grpc.aio.secure_channel(endpoint, credentials(authority, *own)) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary("/t.T/Echo")(b"unknown", timeout=5)
                assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_certificate_that_changes_is_used_for_new_connections(authority, files, tmp_path):
    tls = Tls(files)
    async with serving(tls) as world:
        endpoint = f"localhost:{world.port}"
        async with grpc.aio.secure_channel(endpoint, credentials(authority)) as channel:
            echo = channel.unary_unary("/t.T/Echo")
            await echo(b"before")
            _, _, first = await say_hello(world.port, client_context(authority))
            new = authority.issue("renewed", tmp_path)
            os.replace(new[0], files.certificate)
            os.replace(new[1], files.key)
            tls.look()
            _, _, second = await say_hello(world.port, client_context(authority))
            assert first != second
            assert await echo(b"the connection is still there") == b"the connection is still there"


async def test_a_certificate_that_cannot_be_read_leaves_the_one_before(authority, files, caplog):
    tls = Tls(files)
    async with serving(tls) as world:
        files.certificate.write_text("rubbish")
        tls.look()
        assert "action=certificate_not_read" in caplog.text
        found, *_ = await say_hello(world.port, client_context(authority))
        assert b"200 OK" in found


def test_files_that_do_not_belong_together(authority, tmp_path):
    one, two = authority.issue("one", tmp_path), authority.issue("two", tmp_path)
    with pytest.raises(ConfigError, match="tls_cert"):
        Tls(TlsFiles(one[0], two[1]))
    with pytest.raises(ConfigError, match="missing"):
        Tls(TlsFiles(tmp_path / "missing", two[1]))


def test_old_versions_are_refused(files):
    assert Tls(files).context.minimum_version >= ssl.TLSVersion.TLSv1_2
