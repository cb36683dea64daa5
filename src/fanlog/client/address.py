"""The address of a server: where it listens, and the files for TLS.

An address is one text, so that it can be set in one place and sent to other processes: HOST:PORT,
or https://HOST:PORT?ca=FILE&cert=FILE&key=FILE; the parts behind the port may be left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, quote, urlencode

from fanlog.errors import InvalidArgument
from fanlog.model import names

ENDPOINT_DEFAULT: Final = "127.0.0.1:8085"
#: Official clients read this one too, so that one setting serves all.
ENDPOINT_VARIABLE: Final = "PUBSUB_EMULATOR_HOST"
_TLS: Final = "https://"
_FILES: Final = ("ca", "cert", "key")
#: Where each file is named in the environment, the first that is set.
_VARIABLES: Final = {
    "ca": ("FANLOG_CA", "SSL_CERT_FILE"),
    "cert": ("FANLOG_CERT",),
    "key": ("FANLOG_KEY",),
}

_OWN: Final = ("FANLOG_CA", "FANLOG_CERT")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A parsed address."""

    host_port: str
    is_tls: bool = False
    #: Certificates of those who may have signed the server's; the system's when not given.
    ca: str = ""
    #: Our own certificate, with its chain, and its key; for servers that ask for one.
    cert: str = ""
    key: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidArgument."""
        if not text.startswith(_TLS):
            return cls(text)
        host_port, _, query = text.removeprefix(_TLS).partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True))
        unknown = given.keys() - set(_FILES)
        if unknown:
            raise InvalidArgument(
                f"endpoint: {names.shown(min(unknown))} is not known; ca, cert and key are"
            )
        found = cls(host_port.rstrip("/"), is_tls=True, **given)
        if bool(found.cert) != bool(found.key):
            raise InvalidArgument("endpoint: cert and key go together; one of them is not given")
        return found

    def __str__(self) -> str:
        if not self.is_tls:
            return self.host_port
        files = {name: getattr(self, name) for name in _FILES if getattr(self, name)}
        query = urlencode(files, quote_via=quote, safe="/")
        return f"{_TLS}{self.host_port}{'?' if query else ''}{query}"

    def read(self, name: str) -> bytes | None:
        """The content of one of the files; None when it is not given.

        Raises:
            InvalidArgument: It cannot be read.
        """
        path = getattr(self, name)
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise InvalidArgument(f"{name}: {names.shown(path)}: {error.strerror}") from error


def resolve_endpoint(
    given: str | None,
    environ: Mapping[str, str] | None = None,
    *,
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
) -> str:
    """The address as one text: given, or else of the environment, or the default.

    Files that are given make it one of TLS, and so do those that only Fanlog's variables name.
    """
    environ = os.environ if environ is None else environ
    text = given or environ.get(ENDPOINT_VARIABLE) or ENDPOINT_DEFAULT
    address = ServerAddress.parse(text)
    files = {"ca": ca, "cert": cert, "key": key}
    is_asked = address.is_tls or any(files.values()) or any(map(environ.get, _OWN))
    if not is_asked:
        return text
    found = {
        name: files[name] or getattr(address, name) or _of_environment(name, environ)
        for name in _FILES
    }
    return str(ServerAddress(address.host_port, is_tls=True, **found))


def _of_environment(name: str, environ: Mapping[str, str]) -> str:
    return next((environ[one] for one in _VARIABLES[name] if environ.get(one)), "")
