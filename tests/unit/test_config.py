"""Where settings come from, and what is refused."""

from __future__ import annotations

from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path

import pytest
import typer

from fanlog import limits
from fanlog.cli.commands import app
from fanlog.config import Config, resolve
from fanlog.errors import ConfigError


@pytest.fixture
def toml(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "fanlog.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refused(flags: dict[str, object], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(flags, environ or {})
    return caught.value.message


def test_defaults():
    config = resolve({}, {})
    assert config == Config()
    assert (config.host, config.port, config.http_port) == ("127.0.0.1", 8085, 8086)
    assert config.data_dir == Path("data")
    assert not config.memory
    assert config.project == "fanlog"
    assert config.disk_reserve_bytes == limits.DISK_RESERVE_BYTES
    assert config.drain_s == limits.DRAIN_S


def test_flag_beats_variable_beats_file(toml):
    path = toml("port = 1\nhttp_port = 2\ndrain_s = 3")
    config = resolve(
        {"config": path, "port": 11, "http_port": None},
        {"FANLOG_PORT": "21", "FANLOG_HTTP_PORT": "22"},
    )
    assert (config.port, config.http_port, config.drain_s) == (11, 22, 3.0)


def test_file_named_by_variable(toml):
    assert resolve({}, {"FANLOG_CONFIG": str(toml("port = 7"))}).port == 7


def test_file_named_by_flag_comes_first(toml, tmp_path):
    missing = tmp_path / "missing.toml"
    assert resolve({"config": toml("port = 7")}, {"FANLOG_CONFIG": str(missing)}).port == 7


def test_hosts_and_origins_are_read_alike_from_everywhere(toml):
    hosts, origins = ("fanlog.internal", "::1"), ("https://app.example", "http://[::1]:3000")
    path = toml(
        "http_hosts = ['Fanlog.Internal.', '::1']\ncors_origins = ['https://app.example:443', 'http://[::1]:3000']"
    )
    environ = {
        "FANLOG_HTTP_HOSTS": "fanlog.internal, [::1]",
        "FANLOG_CORS_ORIGINS": "https://App.example,http://[::1]:3000",
    }
    flags = {"http_hosts": list(hosts), "cors_origins": list(origins)}
    for config in (resolve({"config": path}, {}), resolve({}, environ), resolve(flags, {})):
        assert (config.http_hosts, config.cors_origins) == (hosts, origins)


@pytest.mark.parametrize("value", ["*", "http://a", "a:80", "a/b", ["a b"], 5])
def test_what_is_no_host(value):
    assert "--http-hosts must be host names" in refused({"http_hosts": value})


@pytest.mark.parametrize("value", ["*", "null", "app.example", "https://a/b", 5])
def test_what_is_no_origin(value):
    assert "--cors-origins must be origins, each by its name" in refused({"cors_origins": value})


def test_how_large_a_message_may_be():
    assert resolve({}, {}).message_bytes_max == 10_000_000
    assert resolve({}, {"FANLOG_MESSAGE_BYTES_MAX": "5"}).message_bytes_max == 5
    for value in (0, 10_000_001, 1.5, "many"):
        assert "from 1 to 10000000" in refused({"message_bytes_max": value})


def test_where_events_make_topics(toml):
    assert not resolve({}, {}).makes_event_topics("shop")
    everywhere = resolve({}, {"FANLOG_EVENT_TOPICS": "create"})
    assert everywhere.makes_event_topics("shop")
    file = toml("event_topics = 'create'\nevent_projects = ['shop', 'lab']")
    variables = {"FANLOG_EVENT_TOPICS": "create", "FANLOG_EVENT_PROJECTS": "shop, lab"}
    flags = {"event_topics": "create", "event_projects": ["shop", "lab"]}
    for some in (resolve({"config": file}, {}), resolve({}, variables), resolve(flags, {})):
        assert [some.makes_event_topics(one) for one in ("shop", "lab", "x")] == [True, True, False]
    assert "--event-topics must be one of" in refused({"event_topics": "yes"})
    assert "must be a project id" in refused(flags | {"event_projects": ["a/b"]})
    assert "must be project ids" in refused(flags | {"event_projects": 7})
    assert "event_topics is 'refuse'" in refused({"event_projects": ["shop"]})


def test_grpc_compression():
    assert resolve({}, {}).grpc_compression == "off"
    assert resolve({}, {"FANLOG_GRPC_COMPRESSION": "gzip"}).grpc_compression == "gzip"
    assert "--grpc-compression must be one of" in refused({"grpc_compression": "snappy"})


def test_every_setting_from_variables():
    config = resolve(
        {},
        {
            "FANLOG_HOST": "0.0.0.0",
            "FANLOG_PORT": "0",
            "FANLOG_HTTP_PORT": "0",
            "FANLOG_MEMORY": "yes",
            "FANLOG_INSECURE": "TRUE",
            "FANLOG_PROJECT": "shop",
            "FANLOG_RESOURCES": "shop.yaml",
            "FANLOG_DISK_RESERVE_BYTES": "1000",
            "FANLOG_DRAIN_S": "0.5",
            "FANLOG_LOG_LEVEL": "debug",
            "UNRELATED": "x",
        },
    )
    assert config == Config(
        host="0.0.0.0",
        port=0,
        http_port=0,
        memory=True,
        insecure=True,
        project="shop",
        resources=Path("shop.yaml"),
        disk_reserve_bytes=1000,
        drain_s=0.5,
        log_level="debug",
    )


def test_networks_that_push_may_reach(toml):
    networks = (ip_network("127.0.0.0/8"), ip_network("fd00::/8"))
    texts = ["127.0.0.0/8", "fd00::/8"]
    assert resolve({"push_allow": texts}, {}).push_allow == networks
    assert resolve({}, {"FANLOG_PUSH_ALLOW": ", ".join(texts)}).push_allow == networks
    file = toml(f"push_allow = {texts!r}")
    assert resolve({"config": file}, {}).push_allow == networks
    assert resolve({}, {}).push_allow == ()
    for wrong in ("everything", "127.0.0.1/8"):
        with pytest.raises(ConfigError, match="must be networks, such as"):
            resolve({"push_allow": [wrong]}, {})


def test_issuer():
    assert resolve({"push_issuer": "https://me.org/"}, {}).push_issuer == "https://me.org"
    with pytest.raises(ConfigError, match="must be an http or https address"):
        resolve({"push_issuer": "me.org"}, {})


def test_paths_in_the_file_are_relative_to_it(toml):
    path = toml('data_dir = "messages"\nresources = "/etc/shop.toml"')
    config = resolve({"config": path}, {})
    assert config.data_dir == path.parent / "messages"
    assert config.resources == Path("/etc/shop.toml")


def test_empty_variable_is_unset():
    assert resolve({}, {"FANLOG_PORT": "", "FANLOG_CONFIG": ""}) == Config()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_nothing(host):
    assert resolve({"host": host}, {}).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker.example"])
def test_other_hosts_need_insecure(host):
    message = refused({"host": host})
    assert host in message
    assert "--insecure" in message
    assert resolve({"host": host, "insecure": True}, {}).host == host


class TestEngineChoice:
    def test_both_as_flags(self):
        message = refused({"memory": True, "data_dir": "d"})
        assert "--memory" in message
        assert "--data-dir" in message

    def test_both_as_variables(self):
        message = refused({}, {"FANLOG_MEMORY": "1", "FANLOG_DATA_DIR": "d"})
        assert "FANLOG_MEMORY" in message
        assert "FANLOG_DATA_DIR" in message

    def test_both_in_the_file(self, toml):
        assert "memory" in refused({"config": toml('memory = true\ndata_dir = "d"')})

    def test_memory_false_is_no_contradiction(self):
        config = resolve({"data_dir": "d"}, {"FANLOG_MEMORY": "false"})
        assert (config.memory, config.data_dir) == (False, Path("d"))

    def test_flag_memory_beats_data_dir_of_variable_and_file(self, toml):
        config = resolve(
            {"memory": True, "config": toml('data_dir = "d"')}, {"FANLOG_DATA_DIR": "e"}
        )
        assert config.memory

    def test_flag_data_dir_beats_memory_of_file(self, toml):
        config = resolve({"data_dir": "d", "config": toml("memory = true")}, {})
        assert (config.memory, config.data_dir) == (False, Path("d"))

    def test_variable_beats_file(self, toml):
        config = resolve({"config": toml('data_dir = "d"')}, {"FANLOG_MEMORY": "on"})
        assert config.memory


class TestRefusals:
    def test_unknown_key_with_hint(self, toml):
        message = refused({"config": toml("prot = 1")})
        assert "'prot'" in message
        assert "did you mean port?" in message

    def test_unknown_key_without_hint_lists_all(self, toml):
        assert "http_port" in refused({"config": toml("zzz = 1")})

    def test_table_is_unknown(self, toml):
        assert "'server'" in refused({"config": toml("[server]\nport = 1")})

    def test_unknown_variable(self):
        message = refused({}, {"FANLOG_PROT": "1"})
        assert "FANLOG_PROT" in message
        assert "PORT" in message

    def test_unknown_flag(self):
        assert "--colour" in refused({"colour": 1})

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ('port = "8085"', "whole number from 0 to 65535"),
            ("port = true", "whole number"),
            ("port = 65536", "65535"),
            ("port = -1", "from 0"),
            ("http_port = 1.5", "whole number"),
            ("host = 1", "text"),
            ('host = ""', "text"),
            ("data_dir = 1", "path"),
            ('data_dir = ""', "path"),
            ("memory = 1", "true or false"),
            ('insecure = "yes"', "true or false"),
            ('project = "a/b"', "without slashes"),
            ("resources = []", "path"),
            ("disk_reserve_bytes = -1", "0 or more"),
            ("drain_s = -0.1", "seconds"),
            ("drain_s = inf", "seconds"),
            ("drain_s = nan", "seconds"),
            ('outcomes = "maybe"', "auto, on, off"),
            ('dead_letter_default = "always"', "none, auto"),
            ('region = "europe west"', "the name of a region, such as europe-west1"),
            ("region = 1", "the name of a region, such as europe-west1"),
            ('log_level = "loud"', "debug, info"),
        ],
    )
    def test_wrong_value_in_the_file(self, toml, line, words):
        message = refused({"config": toml(line)})
        assert words in message
        assert f"{line.split(' ')[0]!r}" in message
        assert "fanlog.toml" in message

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("FANLOG_PORT", "x"),
            ("FANLOG_PORT", "8085.0"),
            ("FANLOG_MEMORY", "maybe"),
            ("FANLOG_DRAIN_S", "1s"),
            ("FANLOG_LOG_LEVEL", "loud"),
        ],
    )
    def test_wrong_value_in_a_variable(self, name, text):
        message = refused({}, {name: text})
        assert name in message
        assert repr(text) in message or text in message

    def test_missing_file(self, tmp_path):
        assert "No such file" in refused({"config": tmp_path / "none.toml"})

    def test_broken_file(self, toml):
        assert "not a TOML file" in refused({"config": toml("port =")})


def test_a_lake_in_the_file_is_relative_to_it(tmp_path):
    file = tmp_path / "fanlog.toml"
    file.write_text('lake = "lake"\nhot_retention_s = 60\nhot_size_bytes = 1000\n')
    found = resolve({"config": str(file)}, {})
    assert found.lake == str(tmp_path / "lake")
    assert (found.hot_retention_s, found.hot_size_bytes) == (60.0, 1000)
    file.write_text('lake = "s3://bucket/lake"\n')
    assert resolve({"config": str(file)}, {}).lake == "s3://bucket/lake"


def test_a_largest_size_of_the_hot_log_needs_a_lake():
    with pytest.raises(ConfigError, match="lake is not"):
        resolve({}, {"FANLOG_HOT_SIZE_BYTES": "1000"})


def test_variables_of_every_command_are_known() -> None:
    """`fanlog up` starts a server in the environment that has the pipeline's variables, too."""
    found: set[str] = set()
    waiting = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        found |= {str(p.envvar) for p in command.params if p.envvar is not None}
    variables = {name: "1" for name in found if name.startswith("FANLOG_")}
    strange = variables.keys() - {f"FANLOG_{field.name.upper()}" for field in fields(Config)}
    assert strange
    resolve({}, dict.fromkeys(strange, "1"))


def test_variables_of_clients_are_known() -> None:
    """A server may be started where the command line has its files for TLS in the environment."""
    resolve({}, {"FANLOG_CA": "ca.pem", "FANLOG_CERT": "cert.pem", "FANLOG_KEY": "key.pem"})
    resolve({}, {"FANLOG_TOKEN": "flt_x", "FANLOG_TOKEN_FILE": "t", "FANLOG_CREDENTIALS": "k.json"})


class TestTopicRetention:
    @pytest.mark.parametrize(
        ("given", "seconds"),
        [("7d", 604_800.0), ("12h", 43_200.0), ("1d12h", 129_600.0), ("0", 0.0), ("3600", 3_600.0)],
    )
    def test_a_flag_and_a_variable(self, given, seconds):
        assert resolve({"topic_retention": given}, {}).topic_retention == seconds
        assert resolve({}, {"FANLOG_TOPIC_RETENTION": given}).topic_retention == seconds

    @pytest.mark.parametrize(
        ("given", "seconds"), [('"31d"', 2_678_400.0), ("0", 0.0), ("600", 600.0)]
    )
    def test_in_the_file(self, tmp_path, given, seconds):
        file = tmp_path / "fanlog.toml"
        file.write_text(f"topic_retention = {given}\ntopic_retention_bytes = 1000\n")
        found = resolve({"config": file}, {})
        assert (found.topic_retention, found.topic_retention_bytes) == (seconds, 1_000)

    def test_seven_days_and_a_bound_of_the_engine_when_not_given(self):
        assert (Config().topic_retention, Config().topic_retention_bytes) == (604_800.0, None)

    @pytest.mark.parametrize("given", ["9m59s", "32d", "a week", "-1", "", "1e9", "nan"])
    def test_others_are_refused(self, given):
        with pytest.raises(ConfigError, match=r"--topic-retention must be 0, or from 10m to 31d"):
            resolve({"topic_retention": given}, {})
        with pytest.raises(ConfigError, match="FANLOG_TOPIC_RETENTION_BYTES must be a whole"):
            resolve({}, {"FANLOG_TOPIC_RETENTION_BYTES": "-1"})


class TestSealKey:
    KEY = "flsk_" + "A" * 43

    def test_from_a_file_or_the_environment(self, toml):
        assert resolve({}, {}).seal_key_file is None
        assert resolve({"seal_key_file": "k"}, {}).seal_key_file == Path("k")
        assert resolve({}, {"FANLOG_SEAL_KEY_FILE": "k"}).seal_key_file == Path("k")
        assert resolve({}, {"FANLOG_SEAL_KEY": self.KEY}).seal_key == self.KEY
        file = toml("seal_key_file = 'k'")
        assert resolve({"config": file}, {}).seal_key_file == file.parent / "k"

    def test_the_first_source_that_names_either_decides(self, toml):
        environ, file = {"FANLOG_SEAL_KEY": self.KEY}, toml("seal_key_file = 'k'")
        by_flag = resolve({"seal_key_file": "f", "config": file}, environ)
        assert (by_flag.seal_key_file, by_flag.seal_key) == (Path("f"), "")
        by_variable = resolve({"config": file}, environ)
        assert (by_variable.seal_key_file, by_variable.seal_key) == (None, self.KEY)

    def test_one_source_with_both_is_refused(self):
        environ = {"FANLOG_SEAL_KEY": self.KEY, "FANLOG_SEAL_KEY_FILE": "k"}
        said = refused({}, environ)
        assert "FANLOG_SEAL_KEY and FANLOG_SEAL_KEY_FILE exclude each other" in said

    def test_a_key_is_in_no_text(self, toml):
        assert self.KEY not in repr(resolve({}, {"FANLOG_SEAL_KEY": self.KEY}))
        said = refused({}, {"FANLOG_SEAL_KEY": self.KEY[:-1]})
        assert "FANLOG_SEAL_KEY must be a seal key" in said
        assert self.KEY[5:20] not in said
        file = toml(f"seal_key = '{self.KEY}'")
        said = refused({"config": file})
        assert "a seal key stands in no settings file" in said
        assert self.KEY[5:20] not in said

    def test_memory_has_nothing_to_seal(self):
        for given in ({"FANLOG_SEAL_KEY": self.KEY}, {"FANLOG_SEAL_KEY_FILE": "k"}):
            assert "everything is in memory" in refused({"memory": True}, given)
