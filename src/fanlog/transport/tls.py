"""TLS of the port: certificate, key and client CA from files, read again when they change."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fanlog.errors import ConfigError

log = logging.getLogger("fanlog.tls")

#: In our order of preference: who offers HTTP/1.1 is a browser or curl and wants REST; gRPC's
#: clients offer HTTP/2 alone.
PROTOCOLS: Final = ["http/1.1", "h2"]
#: How often the files are looked at.
LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path
    #: Clients must show a certificate that this signed; None lets any client in.
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """A context of what the files say now.

        Raises:
            ConfigError: A file cannot be read, or they do not belong together.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(PROTOCOLS)
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"tls_cert {str(self.certificate)!r}, tls_key {str(self.key)!r}, tls_client_ca "
                f"{str(self.client_ca or '')!r}: {error}"
            ) from error
        return context

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """A value that changes with the files, also when one is replaced by another of its time."""
        found = []
        for path in (self.certificate, self.key, self.client_ca):
            if path is not None:
                try:
                    stat = os.stat(path)
                except OSError:
                    found.append((0, 0, 0))
                else:
                    found.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
        return tuple(found)


class Tls:
    """The context for new connections; those that are there keep theirs."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises ConfigError."""
        self._files = files
        self._stamp = files.stamp()
        self.context = files.context()

    def look(self) -> None:
        """Read the files again if they changed; what cannot be used is told, and not used."""
        stamp = self._files.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.context = self._files.context()
        except ConfigError as error:
            log.error("action=certificate_not_read %s; the one before stays in use", error)
        else:
            log.info("action=certificate_read file=%s", self._files.certificate)
