"""Servers on which something of everything happened, and the scrape of them."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest
from google.api_core.exceptions import ResourceExhausted

from fanlog.broker import bootstrap
from fanlog.config import Config
from server.conftest import PATIENCE_S, LoopThread, RunningServer


def worked(folder: Path) -> str:
    """The text of a scrape with every metric that the rules and the dashboard name."""
    loop = LoopThread()
    config = Config(
        port=0, http_port=0, disk_reserve_bytes=0, push_allow=(ip_network("127.0.0.0/8"),)
    )
    try:
        return _delivered(loop, config, folder) + _denied(loop, config, folder)
    finally:
        loop.close()


def _delivered(loop: LoopThread, config: Config, folder: Path) -> str:
    # Nobody takes what is exported, and that is counted.
    nowhere = "http://127.0.0.1:9"
    lake = str(folder / "lake")
    config = replace(config, data_dir=folder / "data", lake=lake, otlp_endpoint=nowhere)
    server = RunningServer(loop, config, None)
    try:
        letters = server.topic()
        policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
        topic, subscription = server.topic_and_subscription(dead_letter_policy=policy)
        server.publish(topic, b"0", b"1")
        received = server.pull(subscription)
        server.ack(subscription, received[:1])
        server.nack(subscription, received[1:])
        _drop(server)
        _exceed(server)
        pushed = server.topic()
        server.subscription(pushed, push_config={"push_endpoint": "http://127.0.0.1:9/push"})
        server.publish(pushed, b"0")
        late_s = time.monotonic() + PATIENCE_S
        while "fanlog_push_seconds_count 0" in (text := server.metrics()):
            assert time.monotonic() < late_s
        return text
    finally:
        server.stop()


def _denied(loop: LoopThread, config: Config, folder: Path) -> str:
    """Of a server that authenticates: only what the other one does not have."""
    auth = folder / "auth"
    server = RunningServer(loop, replace(config, memory=True, auth="required", auth_dir=auth), None)
    try:
        request = urllib.request.Request(server.http("/metrics"))
        request.add_header("Authorization", "Bearer fanlog_wrong")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request)
        token = bootstrap.token_path(auth, bootstrap.ADMINISTRATOR).read_text().strip()
        request.remove_header("Authorization")
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            text = response.read().decode()
    finally:
        server.stop()
    failures = "fanlog_authentication_failures_total"
    return "".join(line for line in text.splitlines(True) if line.startswith(failures))


def _drop(server: RunningServer) -> None:
    labels = {"fanlog-backlog-policy": "drop-oldest", "fanlog-backlog-messages": "1"}
    topic, _ = server.topic_and_subscription(labels=labels)
    server.publish(topic, b"0")
    server.publish(topic, b"1")


def _exceed(server: RunningServer) -> None:
    labels = {"fanlog-publish-rate": "1", "fanlog-publish-burst": "1"}
    topic = server.topic(labels=labels)
    server.publish(topic, b"0")
    with pytest.raises(ResourceExhausted):
        server.publish(topic, b"1")
