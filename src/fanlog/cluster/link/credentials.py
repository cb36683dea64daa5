"""The credentials of nodes: a secret that they share, certificates of the cluster's CA, or both.

They are never those of callers: a link's port believes no token, and the CA of nodes signs nodes
alone. A certificate is looked at for its signature, not for its name: with one a process can act as
any node, since all nodes may do the same.
"""

from __future__ import annotations

import logging
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fanlog.cluster.bounds import NODE_SECRET_LENGTH_MIN
from fanlog.errors import ConfigError
from fanlog.transport.tls import Tls, TlsFiles

log = logging.getLogger("fanlog.link")

#: Others may do nothing with the file of a secret.
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCredentials:
    #: The first is shown, all are believed: so a secret is replaced while nodes go on.
    secrets: tuple[bytes, ...] = ()
    #: Certificate and key of this node, and the CA of all.
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        if not self.secrets and self.tls is None:
            raise ConfigError(
                "nodes of a cluster need a secret that they share, or certificates "
                "(node_tls_cert, node_tls_key, node_tls_ca)"
            )

    @property
    def believed(self) -> tuple[bytes, ...]:
        """Secrets for the handshake; an empty one where certificates are enough."""
        return self.secrets or (b"",)

    def server_tls(self) -> Tls | None:
        """The server's side of TLS; None without certificates.

        Raises:
            ConfigError: The files cannot be used.
        """
        if self.tls is None:
            return None
        try:
            return Tls(self.tls)
        except ConfigError as error:
            raise ConfigError(f"the certificate of this node: {error.message}") from error

    def client_context(self) -> ssl.SSLContext | None:
        """A context of what the files say now; None without certificates.

        Raises:
            ConfigError: The files cannot be used.
        """
        if self.tls is None:
            return None
        assert self.tls.client_ca is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        # Whoever has a certificate of this CA is a node, at whatever address.
        context.check_hostname = False
        try:
            context.load_verify_locations(self.tls.client_ca)
            context.load_cert_chain(self.tls.certificate, self.tls.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the certificate of this node cannot be used: {error}") from error
        return context


def read_credentials(
    *,
    secret_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
) -> NodeCredentials:
    """Credentials of files. A secret that others on this machine can read is warned of.

    Raises:
        ConfigError: There are none, some are missing, or a file cannot be read.
    """
    tls = None
    if certificate is not None or key is not None or ca is not None:
        if certificate is None or key is None or ca is None:
            raise ConfigError(
                "node_tls_cert, node_tls_key and node_tls_ca belong together; give all or none"
            )
        tls = TlsFiles(certificate, key, ca)
    secrets = () if secret_file is None else _read_secrets(secret_file)
    return NodeCredentials(secrets=secrets, tls=tls)


def _read_secrets(path: Path) -> tuple[bytes, ...]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(
            f"the secret of nodes in {path} cannot be read: {error.strerror}"
        ) from error
    secrets = tuple(line.strip() for line in lines if line.strip())
    if not secrets or min(map(len, secrets)) < NODE_SECRET_LENGTH_MIN:
        raise ConfigError(
            f"{path}: the secret of nodes must have {NODE_SECRET_LENGTH_MIN} characters or more, "
            "and each line is one"
        )
    if mode & _OTHERS:
        log.warning(
            "action=node_secret_shared path=%s mode=%o; others on this machine may read it: chmod "
            "600 %s",
            *(path, mode, path),
        )
    return secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Passport:
    """The names and the credentials by which other nodes know this node."""

    cluster: str
    node: str
    credentials: NodeCredentials
