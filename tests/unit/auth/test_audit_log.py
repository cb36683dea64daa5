"""The audit log: one line an entry, put aside by size, and never in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fanlog.auth.audit_log import AuditLog, AuditSettings
from fanlog.auth.certificates import CertificateRule
from fanlog.auth.disbelief import NotBelieved
from fanlog.broker.clock import ManualClock
from fanlog.errors import ConfigError
from fanlog.model.identity import Principal

ANN = Principal(member="user:ann@example.com", credential="token 12")


def write(log: AuditLog, count: int, resource: str = "projects/p") -> None:
    for _ in range(count):
        log.write(
            principal=ANN,
            address="192.0.2.1",
            method="google.pubsub.v1.Publisher.CreateTopic",
            resource=resource,
            result="OK",
            lacking="",
        )


def test_entries_and_files_that_are_put_aside(tmp_path: Path):
    path = tmp_path / "audit.log"
    heard: list[bytes] = []
    settings = AuditSettings(path=path, size_bytes_max=200, files_max=2)
    for _ in range(6):
        log = AuditLog(settings, ManualClock(), heard.append)
        write(log, 1, "line\nbreak" + "x" * 5_000)
        log.close()
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["audit.log", "audit.log.1", "audit.log.2"]
    [line] = (tmp_path / "audit.log.1").read_text().splitlines()
    entry = json.loads(line)
    assert entry["principal"] == ANN.member
    assert len(entry["resource"]) < 2_000
    assert len(heard) == 6
    assert path.stat().st_mode & 0o777 == 0o600


def test_entries_that_cannot_be_written_are_counted(tmp_path: Path, monkeypatch):
    log = AuditLog(AuditSettings(path=tmp_path / "audit.log"), ManualClock())

    def fail(*_: object) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr("fanlog.auth.audit_log.os.write", fail)
    write(log, 3)
    log.close()
    assert log.lost == 3


def test_a_file_that_cannot_be_opened(tmp_path: Path):
    with pytest.raises(ConfigError, match="audit_log"):
        AuditLog(AuditSettings(path=tmp_path / "none" / "audit.log"), ManualClock())


CERTIFICATE = {
    "subject": ((("commonName", "billing"),),),
    "subjectAltName": (("DNS", "billing.shop.example"), ("email", "ann@example.com")),
}


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("cn", "serviceAccount:billing@mtls.internal"),
        ("san-dns", "serviceAccount:billing.shop.example@mtls.internal"),
        ("san-email", "user:ann@example.com"),
    ],
)
def test_names_of_certificates(name: str, member: str):
    assert CertificateRule(name).principal(CERTIFICATE, 0.0).member == member


def test_a_spiffe_id():
    certificate = {"subjectAltName": (("URI", "spiffe://shop.example/ns/prod/billing"),)}
    found = CertificateRule("san-uri").principal(certificate, 0.0)
    assert found.member == "principal://shop.example/ns/prod/billing"


@pytest.mark.parametrize(
    ("name", "certificate"),
    [
        ("none", CERTIFICATE),
        ("san-uri", CERTIFICATE),
        ("san-dns", {"subjectAltName": (("DNS", "a.example"), ("DNS", "b.example"))}),
        ("san-email", {"subjectAltName": (("email", "a b"),)}),
        ("cn", {"subject": ((("commonName", "admin@0123456789abcdef.fanlog.internal"),),)}),
        ("san-dns", {"subjectAltName": (("DNS", "admin@0123456789abcdef.fanlog.internal"),)}),
        ("cn", {}),
    ],
)
def test_certificates_that_are_not_believed(name: str, certificate: dict[str, object]):
    with pytest.raises(NotBelieved):
        CertificateRule(name).principal(certificate, 0.0)


def test_a_certificate_that_expired_on_its_connection():
    """The handshake looked at it once; calls come for as long as the connection lasts."""
    certificate = CERTIFICATE | {"notAfter": "Jan  1 00:00:10 1970 GMT"}
    rule = CertificateRule("san-email")
    assert rule.principal(certificate, 9.0).expires_s == 10.0
    with pytest.raises(NotBelieved, match="has expired"):
        rule.principal(certificate, 10.0)


def test_a_file_that_cannot_be_put_aside_stays_the_one(tmp_path: Path, monkeypatch):
    """The number of a file that is closed may be that of another file a moment later."""
    path = tmp_path / "audit.log"
    log = AuditLog(AuditSettings(path=path, size_bytes_max=1), ManualClock())

    def fail(_: Path) -> int:
        raise OSError("too many open files")

    monkeypatch.setattr("fanlog.auth.audit_log._open", fail)
    write(log, 2)
    log.close()
    files = sorted(tmp_path.iterdir())
    assert sum(len(one.read_text().splitlines()) for one in files) == 2
