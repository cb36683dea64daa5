"""Write the reference pages that the code knows best: errors, limits, settings, metrics, commands.

`python docs/generate.py` writes them; the test suite says when they are stale.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from fanlog import config, errors, limits
from fanlog.cli.main import app
from fanlog.server import metric_families

REFERENCE = Path(__file__).parent / "reference"


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Every error carries its code as the `reason` of a `google.rpc.ErrorInfo` with the domain",
        "`fanlog`. Codes never change their meaning.",
        "",
        "| code | gRPC | HTTP | what happened, what to do |",
        "| --- | --- | --: | --- |",
    ]
    for error in _error_classes(errors.FanlogError):
        text = " ".join((inspect.getdoc(error) or "").split("\n\n")[0].split())
        status, code = error.grpc_status, error.http_status
        lines.append(f"| `{error.code}` | {status} | {code} | {text} |")
    return "\n".join(lines) + "\n"


def limits_page() -> str:
    lines = ["# Limits and defaults", ""]
    for comment, name in _limits():
        if name in ("MINUTE_S", "HOUR_S", "DAY_S"):
            continue
        value = getattr(limits, name)
        if comment.startswith("# "):
            lines += ["", f"## {comment[2:].rstrip('.')}", "", "| limit | value | why |"]
            lines.append("| --- | --: | --- |")
        why = comment[3:] if comment.startswith("#: ") else ""
        lines.append(f"| `{name}` | {value:,} | {why} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "Each comes from the first of these that names it: a flag of `fanlog serve`, a variable,",
        "the TOML file (`--config`, `FANLOG_CONFIG`), its default.",
        "",
        "| key | flag | variable | default | |",
        "| --- | --- | --- | --- | --- |",
    ]
    source = inspect.getsource(config.Config)
    for field in dataclasses.fields(config.Config):
        comment = re.search(rf"((?:    #: .*\n)+)    {field.name}:", source)
        text = " ".join(re.findall(r"#: (.*)", comment[1])) if comment else ""
        flag = "--" + field.name.replace("_", "-")
        variable = config.ENV_PREFIX + field.name.upper()
        default = "" if field.default is None else f"`{field.default}`"
        lines.append(f"| `{field.name}` | `{flag}` | `{variable}` | {default} | {text} |")
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    lines = [
        "# The command line",
        "",
        "Every command takes `--help`; all but `serve` take `--json`.",
    ]
    for path, command in _commands(typer.main.get_command(app), ("fanlog",)):
        usage = [p.name.upper() for p in command.params if p.param_type_name == "argument"]
        text = inspect.cleandoc(command.help or "").split("\n\n")[0]
        lines += ["", f"## `{' '.join([*path, *usage])}`", "", text]
        options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        if options:
            lines += ["", "| option | |", "| --- | --- |"]
        for option in options:
            names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
            lines.append(f"| {names} | {' '.join((option.help or '').split())} |")
    return "\n".join(lines) + "\n"


#: The samples of a metric on the page, by its kind.
_SAMPLES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}


def metrics_page() -> str:
    lines = [
        "# Metrics",
        "",
        "`GET /metrics` on the HTTP port shows them in the text format of Prometheus. Names do not",
        "change. Counters start at 0 when the server starts. The label `subscription` is the full",
        "name, `projects/…/subscriptions/…`.",
    ]
    for section, families in metric_families.SECTIONS.items():
        lines += ["", f"## {section}", ""]
        lines += ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
        for family in families:
            names = ", ".join(f"`{family.name}{suffix}`" for suffix in _SAMPLES[family.kind])
            labels = ", ".join(f"`{label}`" for label in family.labels)
            text = f"{family.text} Only {family.when}." if family.when else family.text
            lines.append(f"| {names} | {family.kind} | {labels} | {text} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


PAGES = {
    "errors.md": errors_page,
    "limits.md": limits_page,
    "settings.md": settings_page,
    "cli.md": cli_page,
    "metrics.md": metrics_page,
}


def _error_classes(base: type[errors.FanlogError]) -> Iterator[type[errors.FanlogError]]:
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from _error_classes(child)


def _limits() -> Iterator[tuple[str, str]]:
    """Name of each limit, and the comment lines right above it."""
    source = inspect.getsource(limits)
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        first = node.lineno - 1
        while lines[first - 1].startswith("#"):
            first -= 1
        comment = " ".join(line.lstrip("#: ") for line in lines[first : node.lineno - 1])
        kind = "#: " if lines[first].startswith("#: ") else "# " if comment else ""
        yield kind + comment, node.targets[0].id


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _commands(child, (*path, name))


def main() -> None:
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())
        sys.stdout.write(f"wrote {REFERENCE / name}\n")


if __name__ == "__main__":
    main()
