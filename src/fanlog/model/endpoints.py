"""Where a subscription pushes to, and the secrets it signs with: the checks before they are kept.

Only the text is checked here; whether the host's addresses may be reached is asked when they are
known (`fanlog.push.rules.guard`).
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import attributes, names

FIELD = "push_config.push_endpoint"
#: Sets the secrets; it is never shown.
SECRET_FIELD = f'push_config.attributes["{attributes.WEBHOOK_SECRET}"]'
WEB_SCHEMES = ("http", "https")
#: The schemes of endpoints over gRPC; `grpcs` is with TLS.
GRPC_SCHEMES = ("grpc", "grpcs")
#: Forwards to a topic; the rest is its name, full or within the subscription's project.
TOPIC_SCHEME = "topic:"

HMAC_PREFIX = "whsec_"
ED25519_PREFIX = "whsk_"

_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.(?!-)[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


@dataclass(frozen=True, slots=True)
class WebEndpoint:
    """An address of HTTP or gRPC, with TLS or without, taken apart."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The address, if the host is written as one."""
        return _address(self.host)


@lru_cache(maxsize=1024)
def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def parse_web(url: str) -> WebEndpoint:
    """Take an endpoint over HTTP or gRPC apart.

    Raises:
        InvalidArgument: Not such an address, or one that says more than where to send.
    """
    shown = names.shown(url)
    if len(url) > limits.PUSH_ENDPOINT_LENGTH_MAX:
        raise InvalidArgument(
            f"{FIELD}: {len(url)} characters; at most {limits.PUSH_ENDPOINT_LENGTH_MAX} are allowed"
        )
    if not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise InvalidArgument(
            f"{FIELD}: {shown} has a character that an address cannot have; encode it with %"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidArgument(f"{FIELD}: {shown} is not an address: {error}") from error
    scheme = parts.scheme
    if scheme not in (*WEB_SCHEMES, *GRPC_SCHEMES):
        raise InvalidArgument(
            f"{FIELD}: {shown} is not an address of http, https, grpc or grpcs, nor topic:NAME"
        )
    if "@" in parts.netloc:
        raise InvalidArgument(
            f"{FIELD}: no name or password may stand in it: everybody who can read the "
            "subscription would see them. Use a webhook secret or an OIDC token"
        )
    if parts.fragment:
        raise InvalidArgument(f"{FIELD}: {shown} has a fragment, which is never sent")
    if port == 0:
        raise InvalidArgument(f"{FIELD}: {shown} names port 0")
    host = parts.hostname or ""
    _check_host(host, is_bracketed=parts.netloc.startswith("["))
    if scheme in GRPC_SCHEMES:
        if port is None:
            raise InvalidArgument(f"{FIELD}: {shown} names no port, and gRPC has none of its own")
        if parts.path not in ("", "/") or "?" in url:
            raise InvalidArgument(
                f"{FIELD}: {shown} says more than host and port; the method is always "
                "fanlog.v1.Receiver/Receive"
            )
    return WebEndpoint(url, scheme, host, port or (443 if scheme == "https" else 80))


def _check_host(host: str, *, is_bracketed: bool) -> None:
    shown = names.shown(host)
    if is_bracketed:
        try:
            IPv6Address(host)
        except ValueError as error:
            raise InvalidArgument(f"{FIELD}: {shown} is not an IPv6 address") from error
        if "%" in host:
            raise InvalidArgument(f"{FIELD}: {shown} names a zone, which means nothing elsewhere")
        return
    if not host or len(host) > 253 or not _HOST.fullmatch(host):
        raise InvalidArgument(f"{FIELD}: {shown} is not a host name or address")
    # `2130706433` and `0177.1` are 127.0.0.1 to a resolver, and look like nothing to a reader.
    if _NUMERIC_LABEL.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            IPv4Address(host)
        except ValueError as error:
            raise InvalidArgument(
                f"{FIELD}: {shown} is not an IPv4 address of four decimal numbers"
            ) from error


def is_web(endpoint: str) -> bool:
    return endpoint.partition(":")[0].lower() in WEB_SCHEMES


def is_grpc(endpoint: str) -> bool:
    return endpoint.partition(":")[0].lower() in GRPC_SCHEMES


def forward_topic(endpoint: str, subscription: str) -> str | None:
    """The full name of the topic that an endpoint forwards to; None when it does not."""
    if not endpoint.startswith(TOPIC_SCHEME):
        return None
    name = endpoint[len(TOPIC_SCHEME) :]
    if "/" not in name:
        name = names.topic_name(names.parse_subscription(subscription).project, name)
    names.parse_topic(name, field=FIELD)
    return name


def check(endpoint: str, subscription: str) -> None:
    """Check an endpoint of any kind.

    Raises:
        InvalidArgument: It is malformed.
    """
    if forward_topic(endpoint, subscription) is None:
        parse_web(endpoint)


def parse_secrets(text: str) -> tuple[str, ...]:
    """Read one secret, or two with a space between them while one replaces the other.

    Raises:
        InvalidArgument: Names the problem, and repeats nothing of the text.
    """
    found = tuple(text.split())
    if len(found) > limits.PUSH_SECRETS_MAX:
        raise InvalidArgument(
            f"{SECRET_FIELD}: {len(found)} secrets; at most {limits.PUSH_SECRETS_MAX} are allowed"
        )
    for secret in found:
        secret_bytes(secret)
    return found


def secret_bytes(secret: str) -> bytes:
    """The bytes of a secret; raises as `parse_secrets` does."""
    for prefix, least, most in ((HMAC_PREFIX, 24, 64), (ED25519_PREFIX, 32, 64)):
        if secret.startswith(prefix):
            try:
                found = base64.b64decode(secret[len(prefix) :], validate=True)
            except (binascii.Error, ValueError) as error:
                raise InvalidArgument(f"{SECRET_FIELD}: not base64 after {prefix!r}") from error
            if not least <= len(found) <= most:
                raise InvalidArgument(
                    f"{SECRET_FIELD}: {len(found)} bytes after {prefix!r}; "
                    f"{least} to {most} are needed"
                )
            if prefix == ED25519_PREFIX and len(found) not in (32, 64):
                raise InvalidArgument(f"{SECRET_FIELD}: an ed25519 key has 32 or 64 bytes")
            return found
    raise InvalidArgument(
        f"{SECRET_FIELD}: a secret begins with {HMAC_PREFIX!r} (HMAC-SHA256) or "
        f"{ED25519_PREFIX!r} (ed25519), followed by base64"
    )
