"""fanlog.v1.Auth: accounts and policies to protobuf and back."""

from __future__ import annotations

import hashlib

from fanlog.core.iam import Binding, Policy, check_counts
from fanlog.core.roles import CustomRole
from fanlog.errors import InvalidArgument
from fanlog.model.identity import AccountKey, ApiToken, ServiceAccount
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire.fields import timestamp

_KEY_LENGTH_MAX = 8_192
_RSA_BITS = (2048, 4096)


def account_pb(account: ServiceAccount) -> pb.Account:
    return pb.Account(
        name=account.name,
        email=account.email,
        create_time=timestamp(account.created_s),
        keys=map(_key_pb, account.keys),
        tokens=map(token_pb, account.tokens),
    )


def _key_pb(key: AccountKey) -> pb.Key:
    found = pb.Key(id=key.id, public_key=key.public, create_time=timestamp(key.created_s))
    if key.expires_s is not None:
        found.expire_time.CopyFrom(timestamp(key.expires_s))
    return found


def token_pb(token: ApiToken) -> pb.Token:
    found = pb.Token(id=token.id, create_time=timestamp(token.created_s))
    if token.expires_s is not None:
        found.expire_time.CopyFrom(timestamp(token.expires_s))
    return found


def policy_pb(policy: Policy) -> pb.AccessPolicy:
    return pb.AccessPolicy(
        etag=policy.etag,
        bindings=[pb.AccessBinding(role=one.role, members=one.members) for one in policy.bindings],
    )


def bindings_of(policy: pb.AccessPolicy) -> list[Binding]:
    """Raises InvalidArgument: There are more than a policy may have."""
    # Counted before anything is made of them.
    check_counts(len(policy.bindings), sum(len(one.members) for one in policy.bindings))
    return [Binding(role=one.role, members=tuple(one.members)) for one in policy.bindings]


def role_pb(role: CustomRole, *, is_custom: bool) -> pb.Role:
    return pb.Role(name=role.name, permissions=sorted(role.permissions), is_custom=is_custom)


def read_public_key(pem: str) -> tuple[str, str]:
    """The id of a public key, and the key in PEM as it is kept.

    Raises:
        InvalidArgument: No public key in PEM, or of a kind that is not believed.
    """
    # Few servers ever see a key.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    wanted = "public_key: must be an RSA key of 2048 to 4096 bits, or P-256, in PEM"
    if len(pem) > _KEY_LENGTH_MAX or "PRIVATE" in pem:
        raise InvalidArgument(f"{wanted}; the private half stays with its owner")
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidArgument(wanted) from error
    if isinstance(key, rsa.RSAPublicKey):
        if not _RSA_BITS[0] <= key.key_size <= _RSA_BITS[1]:
            raise InvalidArgument(wanted)
    elif not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise InvalidArgument(wanted)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    der = key.public_bytes(serialization.Encoding.DER, form)
    kept = key.public_bytes(serialization.Encoding.PEM, form).decode()
    return hashlib.sha256(der).hexdigest()[:40], kept
