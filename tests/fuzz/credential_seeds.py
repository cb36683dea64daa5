"""Seeds of credentials and policies: tokens that are believed, and some that nearly are."""

from __future__ import annotations

import json
from collections.abc import Iterable

from google.iam.v1 import policy_pb2
from google.iam.v1.iam_policy_pb2 import SetIamPolicyRequest

from fanlog.v1 import auth_pb2
from fuzz.draw import chunk
from fuzz.targets import credentials
from fuzz.targets.credentials import ACCESS, EMAIL, ISSUER, KEY_ID, SIGNED, TEXT, TOKEN, UNSIGNED


def seeds() -> dict[str, list[bytes]]:
    return {
        "token": list(_tokens()),
        "policy_request": list(_policies()),
        "public_key": [credentials.PUBLIC_KEY.encode()],
    }


def _tokens() -> Iterable[bytes]:
    yield bytes([TEXT]) + f"Bearer {TOKEN}".encode()
    head = {"alg": "ES256", "kid": KEY_ID}
    foreign = {"iss": ISSUER, "aud": ["fanlog"], "sub": "ann@example.com", "groups": ["/ops"]}
    scope = "https://www.googleapis.com/auth/pubsub"
    for made in (
        credentials.claims(),
        credentials.claims(aud="", scope=scope),
        credentials.claims(**foreign),
        credentials.claims(**foreign | {"sub": EMAIL}),
    ):
        both = chunk(json.dumps(head).encode()) + chunk(json.dumps(made).encode())
        yield bytes([SIGNED]) + both
    for algorithm in ("none", "HS256"):
        unsigned = json.dumps(head | {"alg": algorithm}).encode()
        yield bytes([UNSIGNED]) + chunk(unsigned) + chunk(json.dumps(credentials.claims()).encode())
    ends_s = credentials.claims()["exp"]
    assert isinstance(ends_s, int)
    names = chunk(EMAIL.encode()) + chunk(KEY_ID.encode())
    yield bytes([ACCESS]) + names + ends_s.to_bytes(8, "little")


def _policies() -> Iterable[bytes]:
    role, members = "roles/pubsub.viewer", ["user:a@example.com", "allUsers"]
    google = policy_pb2.Policy(bindings=[policy_pb2.Binding(role=role, members=members)])
    request = SetIamPolicyRequest(resource="projects/p/topics/t", policy=google)
    yield b"\0" + request.SerializeToString()
    request.policy.bindings[0].condition.expression = "true"
    yield b"\0" + request.SerializeToString()
    binding = auth_pb2.AccessBinding(role=role, members=members)
    yield b"\xff" + auth_pb2.AccessPolicy(bindings=[binding]).SerializeToString()
