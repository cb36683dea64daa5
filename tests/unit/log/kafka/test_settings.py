"""The user's file of Kafka settings: its format, what passes, and what is refused."""

from __future__ import annotations

import logging

import pytest

from fanlog.errors import ConfigError
from fanlog.log.kafka.client import Complaints, KafkaOptions, new_admin, new_consumer, new_producer
from fanlog.log.kafka.settings import REFUSED, parse_settings, read_settings


def parse(text: str) -> dict[str, str]:
    return parse_settings(text, "kafka.properties")


def test_the_format_is_that_of_javas_properties():
    text = (
        "# a comment\n! another\n\n"
        "security.protocol=SASL_SSL\r\n"
        "  sasl.mechanism : SCRAM-SHA-512\n"
        "sasl.username fan log\n"
        "sasl.password=a\\\n   b=c:d\\\\\\u0041\\t!\n"
        "ssl.ca.location=\n"
        "client\\.id=x\n"
        "ssl.key.location = /a\\=b  \n"
        "socket.keepalive.enable"
    )
    assert parse(text) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "fan log",
        "sasl.password": "ab=c:d\\A\t!",
        "ssl.ca.location": "",
        "client.id": "x",
        "ssl.key.location": "/a=b",
        "socket.keepalive.enable": "",
    }


@pytest.mark.parametrize("setting", REFUSED)
def test_settings_that_break_promises_are_refused_by_name(setting: str):
    with pytest.raises(ConfigError) as refused:
        parse(f"{setting}=1")
    assert refused.value.message == (
        f"kafka.properties: {setting} cannot be set: {REFUSED[setting]}"
    )


@pytest.mark.parametrize(
    "setting",
    [
        "batch.size",
        "partitioner",
        "test.mock.num.brokers",
        "error_cb",
        "sasl.x_cb",
        "acks ",
        "Acks",
    ],
)
def test_nothing_passes_but_settings_of_the_connection(setting: str):
    with pytest.raises(ConfigError, match="cannot be set: "):
        parse(f"{setting}=1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ssl.ca.location=a\nssl.ca.location=b", "ssl.ca.location stands there twice"),
        ("=x", "'=x' names no setting"),
        ("client.id=\\u12", "\\u is not followed by four hexadecimal digits"),
        ("sasl.mechanism=OAUTHBEARER", "nothing says where tokens come from"),
        ("sasl.mechanisms=OAUTHBEARER", "nothing says where tokens come from"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(text: str, sentence: str):
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert refused.value.message.startswith("kafka.properties: ")
    assert sentence in refused.value.message


def test_a_file_is_read(tmp_path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "kafka.properties"
    path.write_text("sasl.password=hidden\n")
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        assert read_settings(path) == {"sasl.password": "hidden"}
        assert caplog.messages == []
        path.chmod(0o644)
        read_settings(path)
    (warning,) = caplog.messages
    assert warning.startswith("action=kafka_settings_shared ")
    assert "hidden" not in warning
    path.write_text("client.id=x\n")
    caplog.clear()
    assert read_settings(path) == {"client.id": "x"}
    assert caplog.messages == []


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_settings(tmp_path / "nothing")
    path = tmp_path / "kafka.properties"
    path.write_bytes(b"client.id=\xff")
    with pytest.raises(ConfigError, match="are not UTF-8"):
        read_settings(path)


@pytest.mark.parametrize("make", [new_producer, new_consumer, new_admin])
@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("ssl.no.such.thing", "1", "No such configuration property"),
        ("security.protocol", "SECRET", "Invalid value"),
        ("socket.timeout.ms", "soon", "socket.timeout.ms"),
    ],
)
def test_a_setting_that_the_library_refuses_is_an_error_of_the_configuration(
    make, setting: str, value: str, sentence: str
):
    options = KafkaOptions(servers="127.0.0.1:1", cluster="c", settings={setting: value})
    with pytest.raises(ConfigError, match=sentence) as refused:
        make(options, Complaints())
    assert refused.value.message.startswith("Kafka's settings: ")


@pytest.mark.parametrize("make", [new_producer, new_consumer, new_admin])
def test_settings_of_the_connection_reach_every_client(make, tmp_path):
    """A file that is not there is looked for by each of them."""
    missing = str(tmp_path / "ca.pem")
    settings = {"security.protocol": "SSL", "ssl.ca.location": missing}
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location failed"):
        make(KafkaOptions(servers="127.0.0.1:1", cluster="c", settings=settings), Complaints())


def test_passwords_are_not_in_what_is_printed():
    options = KafkaOptions(servers="s", cluster="c", settings={"sasl.password": "hidden"})
    assert "hidden" not in repr(options)
