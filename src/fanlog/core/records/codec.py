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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
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
    """The bytes are not what this build wrote under that key."""


class Form(NamedTuple):
    """How some fields of a record are written."""

    pack: Callable[..., bytes]
    #: Raises struct.error, ValueError, LookupError or TypeError for bytes that it cannot read.
    unpack: Callable[[bytes], Iterable[object]]
    #: How many fields of the record it takes.
    width: int = 1


class Stored:
    """A record of hard state. `record` declares its subclasses."""

    __slots__ = ()

    #: The letter that its keys begin with.
    KIND: ClassVar[bytes]
    _KEY: ClassVar[Form]
    _VALUE: ClassVar[Form]
    _KEY_OF: ClassVar[Callable[..., tuple[object, ...]] | None]

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
        """The record of a key and a value of the right letter and version."""
        make: Callable[..., Self] = cls
        values = tuple(cls._VALUE.unpack(value[1:]))
        if cls._KEY_OF is None:
            restored = make(*cls._KEY.unpack(key[1:]), *values)
        else:
            restored = make(*cls._KEY_OF(*values), *values)
            if restored.key() != key:
                raise ValueError("it is of something else than its key says")
        restored.check()
        return restored


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
        key_of: Gives the key's fields from the value's, for a value that names itself. A record
            whose key and value then disagree is damaged.
        removed_by: The field that is None in a record that removes its key; the first of the
            value's unless said otherwise.
    """

    def declare(cls: type[R]) -> type[R]:
        names = _field_names(cls)
        assert len(names) == key.width + value.width, f"{cls.__name__} has other fields"
        cls.KIND = letter.encode("ascii")
        cls._KEY, cls._VALUE, cls._KEY_OF = key, value, key_of
        key_fields, value_fields = names[: key.width], names[key.width :]
        gone = removed_by or value_fields[0]
        methods = (
            _method("key", f"prefix + pack({_of_self(key_fields)})", cls.KIND, key),
            _method(
                "value",
                f"None if self.{gone} is None else prefix + pack({_of_self(value_fields)})",
                _VERSION_BYTE,
                value,
            ),
        )
        for method in methods:
            setattr(cls, method.__name__, method)
        return cls

    return declare


def _field_names(kind: object) -> list[str]:
    assert is_dataclass(kind)
    return [field.name for field in fields(kind)]


def _of_self(names: Iterable[str]) -> str:
    return ", ".join(f"self.{name}" for name in names)


def _method(name: str, expression: str, prefix: bytes, form: Form) -> Callable[..., bytes | None]:
    """Compile a method, as `dataclass` compiles `__init__`.

    Every acknowledgement calls `key` and `value`; going through the names of fields at run time
    takes almost twice as long.
    """
    namespace: dict[str, Callable[..., bytes | None]] = {}
    text = f"def {name}(self): return {expression}"
    exec(
        compile(text, f"<{name} of a record>", "exec"),
        {"prefix": prefix, "pack": form.pack},
        namespace,
    )
    return namespace[name]


class Registry(Generic[R]):
    """Kinds of records by their letter."""

    def __init__(self, kinds: Iterable[type[R]]) -> None:
        self._kinds: dict[bytes, type[R]] = {}
        for kind in kinds:
            other = self._kinds.setdefault(kind.KIND, kind)
            assert other is kind, f"{kind.__name__} and {other.__name__} have the same letter"

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
        kind = self._kinds.get(key[:1])
        if kind is None:
            raise UnknownRecord(f"state record {key!r} is of a kind this build does not know")
        try:
            return kind.restore(key, value)
        except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
            raise DamagedRecord(f"state record {key!r} cannot be read: {error}") from error


# Forms that several kinds of records have.


def numbers(layout: str) -> Form:
    """Numbers, or bytes of a fixed length, in a layout of `struct`."""
    packer = struct.Struct(layout)
    return Form(packer.pack, packer.unpack, len(packer.unpack(bytes(packer.size))))


#: The key of a record that there is one of: its letter alone.
nothing = numbers(">")


def digest_of(text: str) -> bytes:
    """The 128-bit hash that stands for a name in keys: names are longer than keys may be."""
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def pack_bitmap(bits: BitMap64) -> bytes:
    """The shortest bytes of a set of offsets, which itself stays as it is."""
    compact = bits.copy()
    compact.run_optimize()
    return compact.serialize()


#: One set of offsets.
bitmap = Form(pack_bitmap, lambda body: (BitMap64.deserialize(body),))


def to_json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


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
        assert is_dataclass(value)
        assert not isinstance(value, type)
        written = asdict(value)
        for name in leave_out(value):
            del written[name]
        return to_json(written)

    return Form(pack, lambda body: (read(json.loads(body)),))
