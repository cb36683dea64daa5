"""The one codec of hard-state records: a letter, a key, a version byte and a value.

A record is one keyed value of hard state: writing a key again replaces its value, and a record
without a value removes the key. A kind of record is one frozen dataclass:

    @record("H", key=numbers(">QI"), value=numbers("<QQ"))
    @dataclass(frozen=True, slots=True)
    class CursorHead(Stored):
        owner: int
        partition: PartitionId
        floor: Offset | None
        fence: int

Its first fields are the key, the others the value; a `Form` turns either into bytes and back. Keys
are a letter and big-endian numbers, so that they sort by number; values begin with a version byte.
`docs/internals/data_files.md` has the table of all letters.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import ClassVar, Generic, NamedTuple, Self, TypeVar

from pyroaring import BitMap64

from fanlog.core.shape import Always, reader

VERSION = 1
_VERSION_BYTE = bytes([VERSION])
_DIGEST_BYTES = 16


class UnknownRecord(ValueError):
    """A key or version this build does not know: the data was written by a newer one."""


class DamagedRecord(ValueError):
    """The bytes of a known kind and version cannot be read: no build wrote them."""


class Form(NamedTuple):
    """How some fields of a record are written."""

    pack: Callable[..., bytes]
    #: Raises struct.error, ValueError, LookupError or TypeError for bytes that it cannot read.
    unpack: Callable[[bytes], tuple[object, ...]]
    #: How many fields of the record it takes.
    width: int = 1


class Stored:
    """A record of hard state. `record` declares its subclasses."""

    __slots__ = ()

    #: The letter that its keys begin with.
    KIND: ClassVar[bytes]

    def key(self) -> bytes:
        """The key in the log; `record` writes this method for each class."""
        raise NotImplementedError

    def value(self) -> bytes | None:
        """The value in the log, None to remove the key; written by `record`, too."""
        raise NotImplementedError

    def check(self) -> None:
        """Check a record that was read where its forms alone cannot.

        Raises:
            ValueError: No build writes such a record.
        """

    @classmethod
    def restore(cls, key: bytes, value: bytes) -> Self:
        """The record of a key and a value with its letter and version; written by `record`, too."""
        raise NotImplementedError

    @classmethod
    def removal(cls, key: bytes) -> Self:
        """The record that removes a key; written by `record`, too.

        Only for kinds whose keys have all of their first fields. The other fields are None.
        """
        raise NotImplementedError


R = TypeVar("R", bound=Stored)


def record(
    letter: str,
    *,
    key: Form,
    value: Form,
    key_of: Callable[..., tuple[object, ...]] | None = None,
    removed_by: str = "",
) -> Callable[[type[R]], type[R]]:
    """Declare a frozen dataclass as a kind of record.

    Args:
        letter: The first byte of its keys; no other kind has it.
        key: The form of its first fields.
        value: The form of its other fields.
        key_of: Gives the key's fields from the value, for a value of one field that names itself.
            If the key says otherwise, the record is damaged.
        removed_by: The field that is None in a record that removes its key; the first of the
            value's unless said otherwise.
    """

    def declare(cls: type[R]) -> type[R]:
        names = _field_names(cls)
        assert len(names) == key.width + value.width, f"{cls.__name__} has other fields"
        key_names, value_names = names[: key.width], names[key.width :]
        checks = ["check_key(record, key)"] if key_of is not None else []
        checks += ["record.check()"] if cls.check is not Stored.check else []
        text = _METHODS.format(
            key_fields=", ".join(f"self.{name}" for name in key_names),
            value_fields=", ".join(f"self.{name}" for name in value_names),
            gone=removed_by or value_names[0],
            names=", ".join(names),
            key_names=", ".join(key_names),
            value_names=", ".join(value_names),
            key_source="unpack_key(key[1:])" if key_of is None else f"key_of({value_names[0]})",
            check="; ".join(checks) or "pass",
            nothing=", ".join([*key_names, *(f"{name}=None" for name in value_names)]),
        )
        methods: dict[str, Callable[..., object]] = {}
        cls.KIND = letter.encode("ascii")
        known = {
            "cls": cls,
            "letter": cls.KIND,
            "version": _VERSION_BYTE,
            "pack_key": key.pack,
            "unpack_key": key.unpack,
            "pack_value": value.pack,
            "unpack_value": value.unpack,
            "key_of": key_of,
            "check_key": _check_key,
        }
        exec(compile(text, f"<record {letter}>", "exec"), known, methods)
        methods["restore"] = staticmethod(methods["restore"])
        methods["removal"] = staticmethod(methods["removal"])
        for name, method in methods.items():
            setattr(cls, name, method)
        return cls

    return declare


#: Compiled for each kind, as `dataclass` compiles `__init__`. Every acknowledgement calls `key` and
#: `value`, and a start restores every record there is: looking up the names of fields at run time
#: would take up to twice as long.
_METHODS = """
def key(self):
    return letter + pack_key({key_fields})

def value(self):
    return None if self.{gone} is None else version + pack_value({value_fields})

def restore(key, value):
    [{value_names}] = unpack_value(value[1:])
    [{key_names}] = {key_source}
    record = cls({names})
    {check}
    return record

def removal(key):
    [{key_names}] = unpack_key(key[1:])
    return cls({nothing})
"""


def _check_key(found: Stored, key: bytes) -> None:
    if found.key() != key:
        raise ValueError("it is of something else than its key says")


def _field_names(kind: object) -> list[str]:
    assert is_dataclass(kind)
    return [field.name for field in fields(kind)]


class Registry(Generic[R]):
    """Kinds of records by their letter."""

    def __init__(self, kinds: Iterable[type[R]]) -> None:
        self._restores: dict[bytes, Callable[[bytes, bytes], R]] = {}
        for kind in kinds:
            assert kind.KIND not in self._restores, f"the letter of {kind.__name__} is another's"
            self._restores[kind.KIND] = kind.restore

    def decode(self, key: bytes, value: bytes) -> R:
        """The record that `key` and `value` were made from.

        Raises:
            UnknownRecord: The kind or the version is not known here.
            DamagedRecord: The rest cannot be read.
        """
        if not value or value[0] != VERSION:
            raise UnknownRecord(
                f"state record {key!r} has version {value[:1]!r}; "
                f"this build reads version {VERSION}"
            )
        restore = self._restores.get(key[:1])
        if restore is None:
            raise UnknownRecord(f"state record {key!r} is of a kind this build does not know")
        try:
            return restore(key, value)
        except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
            raise DamagedRecord(f"state record {key!r} cannot be read: {error}") from error


# Forms that several kinds of records have.


def numbers(layout: str) -> Form:
    """Numbers, or bytes of a fixed length, in a layout of `struct`."""
    packer = struct.Struct(layout)
    return Form(packer.pack, packer.unpack, len(packer.unpack(bytes(packer.size))))


#: The key of a record that there is one of: its letter alone.
NOTHING = numbers(">")


def digest_of(text: str) -> bytes:
    """The 128-bit hash that stands for a name in keys: names are longer than keys may be."""
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def pack_bitmap(bits: BitMap64) -> bytes:
    """The shortest bytes of a set of offsets, which itself stays as it is."""
    compact = bits.copy()
    compact.run_optimize()
    return compact.serialize()


#: One set of offsets.
BITMAP = Form(pack_bitmap, lambda body: (BitMap64.deserialize(body),))


#: One for all: `json.dumps` makes an encoder a call.
_encode_json = json.JSONEncoder(separators=(",", ":")).encode


def to_json(fields: Mapping[str, object]) -> bytes:
    return _encode_json(fields).encode()


#: The fields of each dataclass that was written; None for other classes.
_NAMES: dict[type[object], list[str] | None] = {}


def _plain(value: object) -> object:
    """A value with a dict for each dataclass in it, as `asdict` has it, and without copying it."""
    kind = type(value)
    if kind not in _NAMES:
        _NAMES[kind] = _field_names(kind) if is_dataclass(kind) else None
    names = _NAMES[kind]
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value


def json_of(
    kind: type[object],
    *,
    leave_out: Callable[..., Iterable[str]] = lambda value: (),
    always: Always | None = None,
) -> Form:
    """One dataclass as a JSON object of its fields.

    Args:
        kind: The dataclass.
        leave_out: Names the fields that are not written for a value. A field that came later is
            left out while it is not needed, so that builds without it can read the record.
        always: Fields with a default that every build has written all the same, by dataclass.
    """
    read = reader(kind, always)

    def pack(value: object) -> bytes:
        written = _plain(value)
        assert isinstance(written, dict)
        for name in leave_out(value):
            del written[name]
        return to_json(written)

    return Form(pack, lambda body: (read(json.loads(body)),))
