"""Write the pages that the code knows best: the reference, and the index of decision records.

`python docs/generate.py` writes them; the test suite says when they are stale.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc_tools
import typer
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

import fanlog
from fanlog import config, errors, limits
from fanlog.cli.commands import app
from fanlog.cli.serve import ServeOptions
from fanlog.core import problems, roles
from fanlog.core.share import states
from fanlog.model import quotas
from fanlog.server import metric_families, permissions
from fanlog.wire import output_only

DOCS = Path(__file__).parent
#: The folder that `fanlog/v1/*.proto` is in.
PROTO_PATH = Path(fanlog.__file__).parents[1]


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
    flags = {option.name for option in dataclasses.fields(ServeOptions)}
    for field in dataclasses.fields(config.Config):
        comment = re.search(rf"((?:    #: .*\n)+)    {field.name}:", source)
        text = " ".join(re.findall(r"#: (.*)", comment[1])) if comment else ""
        # Some are for the file or the environment alone.
        flag = f"`--{field.name.replace('_', '-')}`" if field.name in flags else ""
        variable = config.ENV_PREFIX + field.name.upper()
        default = "" if field.default is None else f"`{field.default}`"
        if isinstance(field.default, quotas.Quotas):
            default = "see [below](#quotas)"
        lines.append(f"| `{field.name}` | {flag} | `{variable}` | {default} | {text} |")
    return "\n".join([*lines, "", *_quotas()]) + "\n"


def _quotas() -> Iterator[str]:
    yield from ("## Quotas", "")
    yield 'Given by name, with blanks between them: `quotas = "topics=50000 all-topics=200000"`.'
    yield "What would pass a quota is refused with RESOURCE_EXHAUSTED and the quota's name; what is"
    yield "there stays."
    yield from ("", "| quota | default | in all, `all-…` | |", "| --- | --: | --: | --- |")
    source, defaults = inspect.getsource(quotas.Quotas), quotas.DEFAULTS
    for noun in quotas.NOUNS:
        comment = re.search(rf"((?:    #: .*\n)+)    {noun}:", source)
        text = " ".join(re.findall(r"#: (.*)", comment[1])) if comment else ""
        one, every = getattr(defaults, noun), getattr(defaults, f"all_{noun}")
        yield f"| `{noun.replace('_', '-')}` | {one:,} | {every:,} | {text} |"
    yield from ("", "Of one principal, where callers are authenticated:", "")
    yield from ("| quota | default | |", "| --- | --: | --- |")
    for noun in quotas.OF_PRINCIPALS:
        comment = re.search(rf"    #: (.*)\n    {noun}:", source)
        text = comment[1] if comment else ""
        yield f"| `{noun.replace('_', '-')}` | {getattr(defaults, noun):,} | {text} |"


def output_only_page() -> str:
    lines = [
        "# Fields that only the service sets",
        "",
        "What becomes of such a field when a caller sets it, over gRPC and in the REST forms.",
        "*Ignored*: the request is taken as if it were unset, because official clients send it.",
        "*Refused*: the error names it. In an update mask all of them are refused. The short REST",
        "form of a message has no `message_id` and no `publish_time`, and refuses them as it does",
        "every unknown field; so does the Spark sink with such columns.",
        "",
        "| message | field | requests | set by a caller | in `update_mask` | why |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in output_only.FIELDS:
        mask = "refused" if one.mask else ""
        lines.append(
            f"| {one.message} | `{one.field}` | {', '.join(one.requests)} | {one.set_by_caller} "
            f"| {mask} | {one.why} |"
        )
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


def metrics_page() -> str:
    lines = [
        "# Metrics",
        "",
        "`GET /metrics` on the HTTP port shows them in the text format of Prometheus. Names do not",
        "change. Counters start at 0 when the server starts. The labels `topic` and `subscription`",
        "are full names, `projects/…/subscriptions/…`. Of more topics or subscriptions than the",
        "setting `metrics_resources_max` says, the largest and most active have metrics of their",
        "own, and `fanlog_metrics_cut` counts the others. There are [a dashboard and alert",
        "rules](../guides/monitoring.md). Written from the table `fanlog.server.metric_families`.",
    ]
    for section, families in metric_families.SECTIONS.items():
        lines += ["", f"## {section}", ""]
        lines += ["| metric | kind | unit | labels | meaning |", "| --- | --- | --- | --- | --- |"]
        for family in families:
            names = ", ".join(f"`{name}`" for name in family.sample_names)
            labels = ", ".join(f"`{label}`" for label in family.labels)
            text = f"{family.text} Only {family.when}." if family.when else family.text
            line = f"| {names} | {family.kind} | {family.unit} | {labels} | {text} |"
            lines.append(line.replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def proto_page() -> str:
    lines = [
        "# fanlog.v1",
        "",
        "The services that Google's API does not have, on the same gRPC port. The files are",
        "`fanlog/v1/*.proto` of the Python package, with the generated modules beside them; server",
        "reflection shows them too. `Receiver` is the one that users serve.",
    ]
    files = _proto_files()
    lines += ["", *[f"- [{title}](#{_anchor(title)}): {text}" for title, text in _contents(files)]]
    for file in files:
        lines += ["", f"## {file.name}", "", *_paragraphs(_comment(file, [12]))]
        for index, service in enumerate(file.service):
            lines += _service(file, service, [6, index])
        for index, message in enumerate(file.message_type):
            lines += _message(file, message, [4, index], message.name)
    return "\n".join(lines) + "\n"


def states_page() -> str:
    """The table of states; each state's sentence is the comment above it."""
    lines = [
        "# States of a message",
        "",
        "Where a message stands on one subscription, and every way from one state to another.",
        "Written from the table in `fanlog.core.share.states`, which the tests hold the code to.",
        "",
        "| state | |",
        "| --- | --- |",
    ]
    source = inspect.getsource(states.State)
    for state in states.State:
        comment = re.search(rf"((?:    #: .*\n)+)    {state.name} =", source)
        assert comment is not None, f"{state.name} has no comment"
        lines.append(f"| `{state.name}` | {' '.join(re.findall(r'#: (.*)', comment[1]))} |")
    lines += ["", "| from | event | to | when |", "| --- | --- | --- | --- |"]
    for row in states.TRANSITIONS:
        sources = ", ".join(f"`{state.name}`" for state in row.sources)
        line = f"| {sources} | {row.event.value} | `{row.target.name}` | {row.condition} |"
        lines.append(line.replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def permissions_page() -> str:
    lines = [
        "# Permissions",
        "",
        "What a caller needs for each method, on a server with `--auth required`. Written from the",
        "table that is enforced, `fanlog.server.permissions`. A permission is held on a resource",
        "by a role granted on the resource, on its project or on the server. REST, CloudEvents and",
        "Spark call the same methods. Health needs nothing; `/metrics` needs `fanlog.metrics.get`",
        "on the server. Forwards and dead letters are published by the server's own account",
        "`forwarding`, which needs `pubsub.topics.publish` on the topic each time.",
        "",
        "| method | permission | on |",
        "| --- | --- | --- |",
    ]
    for method, rules in permissions.PERMISSIONS.items():
        for rule in rules:
            names = ", ".join(f"`{name}`" for name in rule.permission.split(", "))
            lines.append(f"| `{method}` | {names} | {rule.where} |")
        if not rules:
            lines.append(f"| `{method}` | any authenticated caller | |")
    lines += ["", "## Roles", "", "| role | permissions |", "| --- | --- |"]
    for role, granted in roles.ROLES.items():
        shown = "all" if granted == roles.ALL else ", ".join(f"`{n}`" for n in sorted(granted))
        lines.append(f"| `{role}` | {shown} |")
    lines += ["", "## Permissions beyond Google's", "", "| permission | lets its holder |"]
    lines.append("| --- | --- |")
    lines += [f"| `{name}` | {meaning} |" for name, meaning in roles.OWN.items()]
    return "\n".join(lines) + "\n"


def problems_page() -> str:
    lines = [
        "# Problems",
        "",
        "What `fanlog problems`, `GET /v1/problems`, the console and `fanlog.v1.Overview` say is",
        "wrong now. A problem is there while its rule holds. Codes never change their meaning.",
        "",
        "| code | severity | about a | when, and what to do |",
        "| --- | --- | --- | --- |",
    ]
    for code, row in problems.CODES.items():
        lines.append(f"| `{code}` | {row.severity} | {row.kind} | {row.meaning} |")
    return "\n".join(lines) + "\n"


def decisions_page() -> str:
    lines = [
        "# Decisions",
        "",
        "The records of decisions that others ask about. The last column is the first sentence of",
        "the decision.",
        "",
        "| | decision | date | status | in one line |",
        "| --: | --- | --- | --- | --- |",
    ]
    for path in sorted((DOCS / "adr").glob("[0-9]*.md")):
        text = path.read_text()
        head = re.match(r"# (\d+)\. (.*)\n\n(\d{4}-\d\d-\d\d) · (.*)\n", text)
        assert head is not None, f"{path.name}: not `# 1. Title`, an empty line, `date · status`"
        number, title, date, status = head.groups()
        line = f"| {number} | [{title}]({path.name}) | {date} | {status} |"
        lines.append(f"{line} {_first_sentence(text)} |")
    return "\n".join(lines) + "\n"


#: Each page by its place under `docs`.
PAGES = {
    "reference/errors.md": errors_page,
    "reference/limits.md": limits_page,
    "reference/settings.md": settings_page,
    "reference/cli.md": cli_page,
    "reference/metrics.md": metrics_page,
    "reference/fanlog_v1.md": proto_page,
    "reference/output_only.md": output_only_page,
    "reference/permissions.md": permissions_page,
    "reference/problems.md": problems_page,
    "internals/states.md": states_page,
    "adr/README.md": decisions_page,
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


def _proto_files() -> Sequence[descriptor_pb2.FileDescriptorProto]:
    """The descriptors of our own files, with their comments."""
    names = sorted((PROTO_PATH / "fanlog" / "v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "descriptors"
        status = protoc.main(
            [
                "protoc",
                f"-I{PROTO_PATH}",
                f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
                "--include_source_info",
                f"--descriptor_set_out={out}",
                *map(str, names),
            ]
        )
        assert status == 0
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return sorted(found.file, key=lambda file: file.name)


def _comment(file: descriptor_pb2.FileDescriptorProto, path: list[int]) -> str:
    """The comment above an element; `path` is the one of SourceCodeInfo."""
    for location in file.source_code_info.location:
        if list(location.path) == path:
            return location.leading_comments.strip()
    return ""


def _paragraphs(comment: str) -> list[str]:
    return [line.strip() for line in comment.splitlines()]


def _contents(
    files: Sequence[descriptor_pb2.FileDescriptorProto],
) -> Iterator[tuple[str, str]]:
    for file in files:
        services = ", ".join(f"`{service.name}`" for service in file.service)
        text = _comment(file, [12]).split("\n\n")[0].split("\n \n")[0]
        yield file.name, " ".join(text.split()) + (f" Service {services}." if services else "")


def _anchor(title: str) -> str:
    """The anchor that Markdown renderers give a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _service(
    file: descriptor_pb2.FileDescriptorProto,
    service: descriptor_pb2.ServiceDescriptorProto,
    path: list[int],
) -> list[str]:
    lines = ["", f"### service {service.name}", "", *_paragraphs(_comment(file, path))]
    lines += ["| method | request | answer | |", "| --- | --- | --- | --- |"]
    for index, method in enumerate(service.method):
        request = _type(method.input_type, is_stream=method.client_streaming)
        answer = _type(method.output_type, is_stream=method.server_streaming)
        text = " ".join(_comment(file, [*path, 2, index]).split())
        lines.append(f"| `{method.name}` | {request} | {answer} | {text} |".replace("|  |", "| |"))
    return lines


def _message(
    file: descriptor_pb2.FileDescriptorProto,
    message: descriptor_pb2.DescriptorProto,
    path: list[int],
    name: str,
) -> list[str]:
    lines = ["", f"### {name}", ""]
    comment = _comment(file, path)
    if comment:
        lines += [*_paragraphs(comment), ""]
    lines += ["| number | field | type | |", "| --: | --- | --- | --- |"] if message.field else []
    nested = {f".{file.package}.{name}.{child.name}": child for child in message.nested_type}
    for index, field in enumerate(message.field):
        text = " ".join(_comment(file, [*path, 2, index]).split())
        if field.HasField("oneof_index") and not field.proto3_optional:
            text = f"{text} One of `{message.oneof_decl[field.oneof_index].name}`.".strip()
        row = f"| {field.number} | `{field.name}` | {_field_type(field, nested)} | {text} |"
        lines.append(row.replace("|  |", "| |"))
    if not message.field:
        lines.append("It has no fields.")
    for index, child in enumerate(message.nested_type):
        if not child.options.map_entry:
            lines += _message(file, child, [*path, 3, index], f"{name}.{child.name}")
    for index, enum in enumerate(message.enum_type):
        lines += _enum(file, enum, [*path, 4, index], f"{name}.{enum.name}")
    return lines


def _enum(
    file: descriptor_pb2.FileDescriptorProto,
    enum: descriptor_pb2.EnumDescriptorProto,
    path: list[int],
    name: str,
) -> list[str]:
    lines = ["", f"### {name}", "", *_paragraphs(_comment(file, path))]
    lines += ["| number | value | |", "| --: | --- | --- |"]
    for index, value in enumerate(enum.value):
        text = " ".join(_comment(file, [*path, 2, index]).split())
        lines.append(f"| {value.number} | `{value.name}` | {text} |".replace("|  |", "| |"))
    return lines


def _field_type(
    field: descriptor_pb2.FieldDescriptorProto,
    nested: dict[str, descriptor_pb2.DescriptorProto],
) -> str:
    entry = nested.get(field.type_name)
    if entry is not None and entry.options.map_entry:
        key, value = (_field_type(part, {}) for part in entry.field)
        return f"map of {key} to {value}"
    kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
    shown = _type(field.type_name) if field.type_name else kind.removeprefix("TYPE_").lower()
    is_repeated = field.label == descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    return f"repeated {shown}" if is_repeated else shown


def _type(name: str, *, is_stream: bool = False) -> str:
    """A type by its full name, with a link when it is one of ours."""
    shown = name.lstrip(".")
    if shown.startswith("fanlog.v1."):
        shown = shown.removeprefix("fanlog.v1.")
        shown = f"[{shown}](#{_anchor(shown)})"
    return f"stream of {shown}" if is_stream else shown


def _first_sentence(record: str) -> str:
    """Of the decision; of the first paragraph where the whole record is the decision."""
    found = re.search(r"(?s)\n(?:\*\*Decision\.\*\*|## Decision)\s+(.*)", record)
    text = found[1] if found else record.split("\n\n", 2)[2]
    paragraph = re.sub(r"^- ", "", re.split(r"\n\n|\n- ", text.strip())[0])
    line = " ".join(paragraph.split())
    sentence = re.match(r".*?\.\*?(?=\s|$)", line)
    return str(sentence[0] if sentence else line).replace("|", "\\|")


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(page())
        sys.stdout.write(f"wrote {DOCS / name}\n")


if __name__ == "__main__":
    main()
