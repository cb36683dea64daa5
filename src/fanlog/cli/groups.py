"""Commands made of groups of options and of tables of settings.

Typer reads options from the parameters of a function, one each. Here a parameter may also be a
dataclass, which stands for one option for each of its fields; and `**given` stands for the options
of a table of `Setting`s, from which `create` and `update` of a resource are made alike. Names of
topics and subscriptions complete in shells, by the metavar of the parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from google.protobuf.message import Message
from typer.models import ParameterInfo

from fanlog.cli.completion import by_metavar
from fanlog.errors import InvalidArgument

if TYPE_CHECKING:
    from fanlog.cli.options import Remote

_Command = TypeVar("_Command", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Setting:
    """An option of `create`, of `update` or of both, and the field of the resource that it sets."""

    #: Of the parameter; the option has dashes for its underscores.
    name: str
    #: The field, as an update mask names it; empty where the command itself uses the option.
    path: str = ""
    #: Help of the option, in both commands or in each; a command without it has no such option.
    both: str = ""
    create: str = ""
    update: str = ""
    metavar: str | None = None
    kind: object = str | None
    default: object = None
    #: Makes the field's value from that of the option, whose name is for refusals; None leaves the
    #: field as it is.
    read: Callable[[Any, str], object] = lambda value, _: value
    #: Makes a full name of one that may be short, with the project; instead of `read`.
    full_name: Callable[[str, str], str | None] | None = None
    #: The field that is set, where it lies below that of the mask.
    field: str = ""
    #: Settings that cannot be given together with this one.
    excludes: tuple[str, ...] = ()

    def help(self, command: str) -> str:
        return self.both or (self.create if command == "create" else self.update)

    def parameter(self, command: str) -> Parameter:
        option = flag(self.name)
        if self.kind == FLAG and command == "update" and not self.name.startswith("no_"):
            option += f"/--no-{option[2:]}"
        info = typer.Option(option, metavar=self.metavar, help=self.help(command))
        return _parameter(self.name, Annotated[self.kind, info], self.default)

    def value(self, given: Any, remote: Remote) -> object:
        """The field's value, from that of the option."""
        if self.full_name is not None:
            return self.full_name(given, remote.project)
        return self.read(given, flag(self.name))


#: The kind of a setting that is a flag.
FLAG = bool | None
#: A setting, or a dataclass whose options stand in its place.
Row = Setting | type


def clearing(name: str, path: str, help_: str, *excludes: str) -> Setting:
    """A flag of `update` that takes a field back to its default."""
    return Setting(name, path, update=help_, kind=FLAG, read=lambda *_: None, excludes=excludes)


def flag(name: str) -> str:
    return f"--{name.strip('_').replace('_', '-')}"


def is_given(value: object) -> bool:
    """Whether an option was given; one that may be repeated is an empty list if not."""
    return value is not None and value != []


def add_command(
    app: typer.Typer, name: str | None = None, *, table: Sequence[Row] = ()
) -> Callable[[_Command], _Command]:
    """Add a function to `app` as a command; see the module."""

    def add(function: _Command) -> _Command:
        app.command(name)(_expand(function, table))
        return function

    return add


def _expand(function: Callable[..., None], table: Sequence[Row]) -> Callable[..., None]:
    """The function with a parameter for each option."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters: list[Parameter] = []
    for name, own in signature(function).parameters.items():
        if table and _is_remote(hints[name]):
            # The options of the table stand before those that every command has.
            parameters += _table_parameters(function.__name__, table)
        if name in groups:
            parameters += [] if hints[name] in table else _group_parameters(hints[name])
        elif own.kind is not Parameter.VAR_KEYWORD:
            parameters.append(_parameter(name, hints[name], own.default))

    def run(**given: object) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    run.__doc__ = function.__doc__
    run.__name__ = function.__name__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(run)["__signature__"] = Signature(parameters)
    return run


def _is_remote(hint: object) -> bool:
    # Imported here: a command without a table needs nothing of a client.
    from fanlog.cli.options import Remote

    return hint is Remote


def _table_parameters(command: str, table: Sequence[Row]) -> Iterable[Parameter]:
    for row in table:
        if not isinstance(row, Setting):
            yield from _group_parameters(row)
        elif row.help(command):
            yield row.parameter(command)


def _group_parameters(group: type) -> Iterable[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = Parameter.empty if field.default is MISSING else field.default
        yield _parameter(field.name, hints[field.name], default)


def _parameter(name: str, annotation: object, default: object) -> Parameter:
    for info in getattr(annotation, "__metadata__", ()):
        if isinstance(info, ParameterInfo):
            info.autocompletion = by_metavar(info.metavar)
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def fill(
    message: Message, command: str, table: Sequence[Row], given: Mapping[str, Any], remote: Remote
) -> list[str]:
    """Set the fields of a resource to the settings that were given to `create` or to `update`.

    Returns:
        The paths of the update mask, in the order of the table.

    Raises:
        InvalidArgument: A value that cannot be read, or settings that exclude each other.
    """
    rows = [row for row in table if isinstance(row, Setting) and row.help(command)]
    rows = [row for row in rows if is_given(given[row.name])]
    names = {row.name for row in rows}
    for row in rows:
        if not names.isdisjoint(row.excludes):
            raise _exclusion(row)
    for row in rows:
        if row.path:
            _put(message, row.field or row.path, row.value(given[row.name], remote))
    return list(dict.fromkeys(row.path for row in rows if row.path))


def _exclusion(row: Setting) -> InvalidArgument:
    others = [flag(name) for name in row.excludes]
    if len(others) == 1:
        return InvalidArgument(f"give {others[0]} or {flag(row.name)}, not both")
    return InvalidArgument(f"{flag(row.name)} leaves nothing for {', '.join(others)}")


def _put(message: Any, path: str, value: object) -> None:
    *outer, last = path.split(".")
    for part in outer:
        message = getattr(message, part)
    match value:
        case None:
            pass
        case Message():
            getattr(message, last).CopyFrom(value)
            getattr(message, last).SetInParent()
        case dict():
            getattr(message, last).update(value)
        case list():
            getattr(message, last).extend(value)
        case _ if isinstance(message, Message):
            setattr(message, last, value)
        case _:
            # The labels of a resource.
            message[last] = value
