"""The price of TLS: single publishes over it and in plain text, in turns.

Two servers of this checkout run beside each other, and one at a time has the load.
"""

from __future__ import annotations

import ipaddress
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench import closed_loop
from bench.servers import Fanlog, Launched, Server
from bench.session import Sample

ROUNDS = 3
_DAY = timedelta(days=1)


class Secure(Fanlog):
    """Fanlog with a certificate that signed itself."""

    def _command(self) -> list[str]:
        self.authority, key = _certificate(self.folder)
        return [*super()._command(), "--tls-cert", str(self.authority), "--tls-key", str(key)]


def measure(plain: Server, count: int) -> Sample:
    """`count` requests in plain text and as many over TLS; the server's processor time of both."""
    assert isinstance(plain, Launched)
    folder = plain.folder / "tls"
    folder.mkdir(exist_ok=True)
    secure = Secure(folder)
    secure.start()
    try:
        turns = [(_load(plain, count), _load(secure, count)) for _ in range(ROUNDS)]
    finally:
        secure.stop()
    plain_us, secure_us = (_cpu_us(samples) for samples in zip(*turns, strict=True))
    return Sample(
        figures={"plain": plain_us, "tls": secure_us, "ratio": secure_us / plain_us},
        problems=tuple(problem for turn in turns for sample in turn for problem in sample.problems),
    )


def _load(server: Server, count: int) -> Sample:
    each = max(1, count // ROUNDS)
    return closed_loop.measure(server, each, publish=closed_loop.publish_official)


def _cpu_us(samples: tuple[Sample, ...]) -> float:
    return statistics.median(sample.figures["cpu"] or 0.0 for sample in samples)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for loopback, and its key; their files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].touch(mode=0o600)
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths
