"""The settings of a cluster: each by itself, and which go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanlog.config import Config, resolve
from fanlog.errors import ConfigError

NODE = {"kafka": "k1:9092,k2:9092", "cluster": "shop"}
TLS = {"node_tls_cert": "c.pem", "node_tls_key": "k.pem", "node_tls_ca": "ca.pem"}


def test_the_smallest_cluster():
    config = resolve(NODE, {})
    assert config.kafka == ("k1:9092", "k2:9092")
    assert (config.cluster, config.session, config.kafka_replicas) == ("shop", 3.0, 3)


def test_variables():
    config = resolve(
        {},
        {
            "FANLOG_KAFKA": "[::1]:9092",
            "FANLOG_CLUSTER": "shop",
            "FANLOG_SESSION": "1.5",
            "FANLOG_KAFKA_REPLICAS": "1",
            "FANLOG_KAFKA_FLUSH": "yes",
            "FANLOG_LINK_PORT": "0",
        },
    )
    assert (config.kafka, config.session, config.kafka_replicas) == (("[::1]:9092",), 1.5, 1)
    assert (config.kafka_flush, config.link_port) == (True, 0)


def test_the_file_names_files_beside_it(tmp_path):
    path = tmp_path / "fanlog.toml"
    path.write_text('kafka = ["k1:9092"]\ncluster = "shop"\ncluster_secret_file = "secret"\n')
    config = resolve({"config": path}, {})
    assert config.kafka == ("k1:9092",)
    assert config.cluster_secret_file == tmp_path / "secret"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"kafka": "k1:9092"}, "cluster is not"),
        ({**NODE, "memory": True}, "in memory"),
        ({**NODE, "link_host": "10.0.0.1"}, "cluster-secret-file"),
        ({**NODE, "link_host": "0.0.0.0", "cluster_secret_file": "s"}, "link-address"),
        ({**NODE, "node_tls_cert": "c.pem"}, "go together"),
        ({**NODE, "kafka": "k1"}, "HOST:PORT"),
        ({**NODE, "kafka": ""}, "HOST:PORT"),
        ({**NODE, "link_address": "here"}, "HOST:PORT"),
        ({**NODE, "cluster": "a b"}, "name"),
        ({**NODE, "cluster": "x" * 101}, "name"),
        ({**NODE, "node": "/"}, "name"),
        ({**NODE, "session": 0.4}, "from 0.5 to 60"),
        ({**NODE, "session": 61.0}, "from 0.5 to 60"),
        ({**NODE, "kafka_replicas": 0}, "from 1 to 9"),
    ],
)
def test_what_is_refused(given, why):
    with pytest.raises(ConfigError, match=why):
        resolve(given, {})


@pytest.mark.parametrize(
    "given",
    [
        {**NODE, "link_host": "10.0.0.1", "cluster_secret_file": "s"},
        {**NODE, "link_host": "10.0.0.1", **TLS},
        {**NODE, "link_host": "10.0.0.1", **TLS, "cluster_secret_file": "s"},
        {**NODE, "link_host": "10.0.0.1", "insecure": True},
        {**NODE, "link_host": "::1"},
        {**NODE, "link_host": "0.0.0.0", "link_address": "h:1", "cluster_secret_file": "s"},
    ],
)
def test_links_that_are_protected_or_near(given):
    assert resolve(given, {}).kafka


ALONE = {
    "cluster": "shop",
    "node": "a",
    "link_host": "10.0.0.1",
    "link_port": 1,
    "link_address": "h:1",
    "kafka_config": Path("k"),
    "kafka_replicas": 1,
    "kafka_flush": True,
    "session": 1.0,
    "cluster_secret_file": Path("s"),
    "node_tls_cert": Path("c"),
    "node_tls_key": Path("k"),
    "node_tls_ca": Path("ca"),
}


@pytest.mark.parametrize("name", ALONE)
def test_settings_of_a_cluster_need_one(name):
    with pytest.raises(ConfigError, match=f"{name} is given and kafka is not"):
        Config(**{name: ALONE[name]})
