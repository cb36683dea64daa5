"""What operators write: resources files, configuration, command lines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from commands import invoke
from fanlog import config, times
from fanlog.cli import options
from fanlog.client import CallFailed
from fanlog.errors import ConfigError, InvalidArgument
from fanlog.model import names
from fanlog.server import resource_file
from fanlog.wire import types
from fuzz.bounds import Target, refusal
from fuzz.draw import Draw
from fuzz.world import World

_FOLDER = tempfile.TemporaryDirectory(prefix="fanlog-fuzz-")


@contextmanager
def _file(suffix: str, content: bytes) -> Any:
    path = Path(_FOLDER.name) / f"file{suffix}"
    path.write_bytes(content)
    yield path


def resources_file(data: bytes) -> None:
    """Refused with ConfigError, or specs that a broker takes or refuses the same way."""
    suffix = ".toml" if data[:1] and data[0] & 1 else ".yaml"
    with _file(suffix, data[1:]) as path:
        try:
            # Fewer than in earnest, or most of the time would go into counting them.
            with patch.object(resource_file, "_VALUES_MAX", 2_000):
                wanted = resource_file.read_resources(path, "test")
        except ConfigError as error:
            refusal(error)
            return
    if not wanted.topics and not wanted.subscriptions:
        return

    async def ensured(world: World) -> None:
        with suppress(ConfigError):
            await world.finish(resource_file.ensure_resources(world.broker, wanted))

    World.run(ensured)


def config_file(data: bytes) -> None:
    """Refused with ConfigError, or a configuration whose project can be part of a name."""
    with _file(".conf", data) as path:
        _resolved({"config": path}, {})


def environment(data: bytes) -> None:
    """As a file, from `NAME=value` separated by newlines; names get our prefix."""
    environ = {}
    for line in data.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition("=")
        environ[config.ENV_PREFIX + name] = value
    environ.pop(config.ENV_FILE, None)
    _resolved({}, environ)


def _resolved(flags: dict[str, object], environ: dict[str, str]) -> None:
    try:
        found = config.resolve(flags, environ)
    except ConfigError as error:
        refusal(error)
        return
    assert config.resolve(flags, environ) == found
    names.parse_topic(names.topic_name(found.project, "orders"))
    # What will be done with them; a name that no file can have is refused here and not there.
    for path in (found.data_dir, found.resources or Path()):
        with suppress(OSError):
            path.stat()
    assert 0 <= found.drain_s < float("inf")


def option_values(data: bytes) -> None:
    """Durations, times and pairs: refused with InvalidArgument, or fit for a request."""
    text = data.decode("utf-8", "replace")
    readers: list[Callable[[], object]] = [
        lambda: options.duration_s(text, "--wait"),
        lambda: options.moment(text, "--time"),
        lambda: options.pairs(text.split("\n"), "--attr"),
        lambda: options.topic(text, "test"),
        lambda: options.subscription(text, "test"),
        lambda: options.snapshot(text, "test"),
        lambda: types.Subscription(message_retention_duration=options.duration(text, "--r")),
        lambda: types.Subscription(ack_deadline_seconds=options.whole_s(text, "--a")),
        lambda: times.of_datetime(options.moment(text, "--start")),
    ]
    for read in readers:
        try:
            read()
        except InvalidArgument as error:
            refusal(error)


class _Client:
    """Answers whatever it is asked with something of the right kind."""

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def pull_with_ttl(self, *_: Any, **__: Any) -> Any:
        # Anything else would be asked again, for ever, by `--follow`.
        raise CallFailed("nobody is there", "UNAVAILABLE")

    def publish(self, _: str, messages: Any, **__: Any) -> Any:
        return [str(number) for number, _ in enumerate(messages)]

    def call(self, method: str, request: Any, reply_type: Any) -> Any:
        return reply_type()

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def answer(*args: Any) -> Any:
            if verb.startswith("list_"):
                return iter(())
            if verb.startswith("get_"):
                return types.Topic() if verb == "get_topic" else types.Subscription()
            return args[0]

        return answer


#: Commands with their options, of those that talk to a server.
COMMANDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("topic", "create"), ("--retention", "--label", "--project", "--json")),
    (("topic", "describe"), ("--project", "--json")),
    (("topic", "list"), ("--project", "--json")),
    (
        ("sub", "create"),
        (
            "--topic",
            "--ack-deadline",
            "--retention",
            "--retain-acked",
            "--ordering",
            "--strict-order",
            "--exactly-once",
            "--dead-letter",
            "--max-attempts",
            "--min-backoff",
            "--max-backoff",
            "--expiration",
            "--start",
            "--label",
            "--project",
            "--json",
        ),
    ),
    (
        ("sub", "seek"),
        (
            *("--time", "--snapshot", "--position", "--message-id", "--begin", "--end"),
            *("--project", "--json"),
        ),
    ),
    (("publish",), ("--attr", "--key", "--project", "--json")),
    (("pull",), ("--max", "--ack", "--follow", "--wait", "--project", "--json")),
)
FLAGS = frozenset(
    {
        *("--json", "--retain-acked", "--ordering", "--strict-order", "--exactly-once"),
        *("--begin", "--end", "--ack", "--follow"),
    }
)


def command_line(data: bytes) -> None:
    """Whole commands: done, or refused with one sentence and the status 1 or 2."""
    draw = Draw(data)
    words, known = draw.pick(COMMANDS)
    args = [*words, *(draw.text() for _ in range(draw.below(3)))]
    while not draw.is_empty and len(args) < 24:
        option = draw.pick(known)
        args.append(option)
        if option not in FLAGS:
            args.append(draw.text())
    # `publish - ` reads what is left on its standard input; --file is not ours to follow.
    args = [arg for arg in args if not arg.startswith("--fil")]
    with patch.object(options, "connect", lambda _: _Client()):
        result = invoke(args, input=b"a\nb\n")
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise AssertionError(f"{args} ended in {error!r}") from error
    assert result.exit_code in (0, 1, 2), result.exit_code
    assert "Traceback" not in result.output
    if result.exit_code == 1:
        assert result.stderr.startswith(("fanlog: ", "no messages")), result.stderr


TARGETS = (
    Target(name="resources_file", run=resources_file, memory_max=8 * 1024 * 1024),
    Target(name="config_file", run=config_file),
    Target(name="environment", run=environment),
    Target(name="option_values", run=option_values, size_max=512),
    # What a command imports when it is first used is part of it.
    Target(name="command_line", run=command_line, size_max=512, memory_max=16 * 1024 * 1024),
)
