"""The address of a server: where it listens, the files for TLS, and the file of our credentials.

An address is one text, so that it can be set in one place and sent to other processes: HOST:PORT,
or https://HOST:PORT?ca=FILE&cert=FILE&key=FILE; the parts behind the port may be left out. Both may
name `token_file`, an API token, or `credentials`, the key file of a service account. The text has
the names of files, never a secret: it is shown in errors and sent to other machines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, quote, urlencode

from fanlog.errors import InvalidArgument
from fanlog.model import identity, names, origins

ENDPOINT_DEFAULT: Final = "127.0.0.1:8085"
#: Official clients read this one too, so that one setting serves all.
ENDPOINT_VARIABLE: Final = "PUBSUB_EMULATOR_HOST"
#: The variable that has an API token itself.
TOKEN_VARIABLE: Final = "FANLOG_TOKEN"
#: Of official clients. Google's own keys may stand there, which are no business of a Fanlog server.
GOOGLE_VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_TLS: Final = "https://"
_TLS_FILES: Final = ("ca", "cert", "key")
_SECRETS: Final = ("token_file", "credentials")
_FILES: Final = (*_TLS_FILES, *_SECRETS)
#: Where each file is named in the environment, the first that is set.
_VARIABLES: Final = {
    "ca": ("FANLOG_CA", "SSL_CERT_FILE"),
    "cert": ("FANLOG_CERT",),
    "key": ("FANLOG_KEY",),
}
_SECRET_VARIABLES: Final = {"token_file": "FANLOG_TOKEN_FILE", "credentials": "FANLOG_CREDENTIALS"}

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
    #: The file of an API token.
    token_file: str = ""
    #: The key file of a service account, in Google's form.
    credentials: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidArgument."""
        is_tls = text.startswith(_TLS)
        host_port, _, query = text.removeprefix(_TLS).partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True))
        unknown = given.keys() - set(_FILES)
        if unknown:
            raise InvalidArgument(
                f"endpoint: {names.shown(min(unknown))} is not known; {', '.join(_FILES[:-1])} and"
                f" {_FILES[-1]} are"
            )
        useless = [] if is_tls else [name for name in _TLS_FILES if name in given]
        if useless:
            raise InvalidArgument(
                f"endpoint: {useless[0]} is for TLS; write https:// before the address"
            )
        found = cls(host_port.rstrip("/") if is_tls else host_port, is_tls=is_tls, **given)
        if bool(found.cert) != bool(found.key):
            raise InvalidArgument("endpoint: cert and key go together; one of them is not given")
        if found.token_file and found.credentials:
            raise _two_credentials("token_file", "credentials")
        return found

    def __str__(self) -> str:
        files = {name: getattr(self, name) for name in _FILES if getattr(self, name)}
        query = urlencode(files, quote_via=quote, safe="/")
        return f"{_TLS if self.is_tls else ''}{self.host_port}{'?' if query else ''}{query}"

    @property
    def keeps_secrets(self) -> bool:
        """Whether nobody else can read what is sent there: by TLS, or on this machine."""
        if self.is_tls:
            return True
        try:
            name, _ = origins.parse_host(self.host_port)
        except ValueError:
            return False
        return origins.is_loopback(name)

    def url(self, path: str) -> str:
        """A page of the server's HTTP side, which is on the same port."""
        return f"{'https' if self.is_tls else 'http'}://{self.host_port}{path}"

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
    token_file: str | None = None,
    credentials: str | None = None,
) -> str:
    """The address as one text: given, or else of the environment, or the default.

    Files that are given make it one of TLS, and so do those that only Fanlog's variables name.
    Credentials do not, and are taken from one place: the arguments, or else the given address, or
    else the environment.

    Raises:
        InvalidArgument: It is not an address, or names two credentials.
    """
    environ = os.environ if environ is None else environ
    text = given or environ.get(ENDPOINT_VARIABLE) or ENDPOINT_DEFAULT
    address = ServerAddress.parse(text)
    files = {"ca": ca, "cert": cert, "key": key}
    is_tls = address.is_tls or any(files.values()) or any(map(environ.get, _OWN))
    found: dict[str, str] = {}
    if is_tls:
        found = {
            name: files[name] or getattr(address, name) or _of_environment(name, environ)
            for name in _TLS_FILES
        }
    found |= _secret(address, environ, token_file or "", credentials or "")
    return str(ServerAddress(address.host_port, is_tls=is_tls, **found))


def token_of_environment(environ: Mapping[str, str] | None = None) -> str:
    """The token of FANLOG_TOKEN, or empty."""
    return (os.environ if environ is None else environ).get(TOKEN_VARIABLE, "")


def _of_environment(name: str, environ: Mapping[str, str]) -> str:
    return next((environ[one] for one in _VARIABLES[name] if environ.get(one)), "")


def _secret(
    address: ServerAddress, environ: Mapping[str, str], token_file: str, credentials: str
) -> dict[str, str]:
    """The one file of credentials, by its name in an address; none if FANLOG_TOKEN has a token."""
    if token_file and credentials:
        raise _two_credentials("token_file", "credentials")
    if token_file or credentials:
        return {"token_file": token_file, "credentials": credentials}
    if address.token_file or address.credentials:
        return {name: getattr(address, name) for name in _SECRETS}
    variables = (TOKEN_VARIABLE, *_SECRET_VARIABLES.values())
    set_ones = [one for one in variables if environ.get(one)]
    if len(set_ones) > 1:
        raise _two_credentials(*set_ones[:2])
    if set_ones:
        return {name: environ.get(one, "") for name, one in _SECRET_VARIABLES.items()}
    path = environ.get(GOOGLE_VARIABLE, "")
    return {"credentials": path} if path and _is_our_key(path) else {}


def _is_our_key(path: str) -> bool:
    """Whether a file is the key file of an account of some Fanlog server."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        email = json.loads(Path(path).read_bytes()).get("client_email")
        return isinstance(email, str) and email.endswith(f".{identity.DOMAIN}")
    return False


def _two_credentials(first: str, second: str) -> InvalidArgument:
    return InvalidArgument(f"give {first} or {second}, not both: a call has one caller")
