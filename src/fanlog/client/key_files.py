"""Key files of service accounts, in the form that Google's own clients take.

The key pair is made by the caller, so that the private half is never sent.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

#: As Google's keys have; clients sign with RS256.
_KEY_BITS: Final = 2048
_KEY_ID_LENGTH: Final = 40


def make_key_pair() -> tuple[str, str, str]:
    """A new key: its private half and its public half in PEM, and the id of the public one."""
    # Imported here: only those who make keys wait for it.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65_537, key_size=_KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public, form = key.public_key(), serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashlib.sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()
    pem = public.public_bytes(serialization.Encoding.PEM, form)
    return private.decode("ascii"), pem.decode("ascii"), digest[:_KEY_ID_LENGTH]


def key_file(*, email: str, key_id: str, private_pem: str, token_uri: str, project: str) -> bytes:
    """The content of a key file.

    Args:
        token_uri: Where libraries that do not sign each call's token get one for their signature.
    """
    fields = {
        "type": "service_account",
        "project_id": project,
        "private_key_id": key_id,
        "private_key": private_pem,
        "client_email": email,
        # A number, without which Java's client refuses the file.
        "client_id": str(int(hashlib.sha256(email.encode()).hexdigest()[:17], 16)),
        "token_uri": token_uri,
        "universe_domain": "googleapis.com",
    }
    return json.dumps(fields, indent=2).encode() + b"\n"
