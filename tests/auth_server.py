"""Accounts and policies of a server, in memory, for the commands that administer them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from cryptography.hazmat.primitives import serialization
from google.iam.v1 import iam_policy_pb2, policy_pb2

from fanlog.model.identity import account_email
from fanlog.v1 import auth_pb2

SERVER_ID = "0123456789abcdef"


class AuthServer:
    """Keeps what it is told. Checks no rights."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.accounts: dict[str, auth_pb2.Account] = {}
        self.policies: dict[str, auth_pb2.AccessPolicy] = {}
        self.made_tokens: list[str] = []
        #: `authorization` of each call.
        self.callers: list[str] = []
        #: Refusals to come, by method: the next calls of it get one each.
        self.refusals: dict[str, list[grpc.StatusCode]] = {}
        #: Called before a policy is replaced, as another administrator would come between.
        self.between: Callable[[], None] = lambda: None

    def verbs(self) -> dict[str, tuple[Any, Callable[[Any, Any], Any]]]:
        auth = "fanlog.v1.Auth"
        iam = "google.iam.v1.IAMPolicy"
        return {
            f"{auth}/CreateAccount": (auth_pb2.CreateAccountRequest, self._create),
            f"{auth}/GetAccount": (
                auth_pb2.GetAccountRequest,
                lambda request, context: self._find(request.name, context),
            ),
            f"{auth}/ListAccounts": (auth_pb2.ListAccountsRequest, self._list),
            f"{auth}/DeleteAccount": (auth_pb2.DeleteAccountRequest, self._delete),
            f"{auth}/AddKey": (auth_pb2.AddKeyRequest, self._add_key),
            f"{auth}/RevokeKey": (auth_pb2.RevokeKeyRequest, self._revoke_key),
            f"{auth}/CreateToken": (auth_pb2.CreateTokenRequest, self._create_token),
            f"{auth}/RevokeToken": (auth_pb2.RevokeTokenRequest, self._revoke_token),
            f"{auth}/GetPolicy": (
                auth_pb2.GetPolicyRequest,
                lambda request, context: self._policy(request.resource),
            ),
            f"{auth}/SetPolicy": (
                auth_pb2.SetPolicyRequest,
                lambda request, context: self._put(request.resource, request.policy, context),
            ),
            f"{auth}/ListRoles": (
                auth_pb2.ListRolesRequest,
                lambda *_: auth_pb2.ListRolesResponse(
                    roles=[
                        auth_pb2.Role(
                            name="roles/pubsub.publisher", permissions=["pubsub.topics.publish"]
                        )
                    ]
                ),
            ),
            f"{auth}/WhoAmI": (
                auth_pb2.WhoAmIRequest,
                lambda *_: auth_pb2.WhoAmIResponse(
                    member=self.callers[-1] and "user:ann@example.com", server_id=SERVER_ID
                ),
            ),
            f"{iam}/GetIamPolicy": (
                iam_policy_pb2.GetIamPolicyRequest,
                lambda request, context: _google(self._policy(request.resource)),
            ),
            f"{iam}/SetIamPolicy": (
                iam_policy_pb2.SetIamPolicyRequest,
                lambda request, context: _google(
                    self._put(request.resource, request.policy, context)
                ),
            ),
        }

    def handled(self, method: str, verb: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def handle(request: Any, context: Any) -> Any:
            self.callers.append(dict(context.invocation_metadata()).get("authorization", ""))
            if self.refusals.get(method):
                context.abort(self.refusals[method].pop(0), "refused")
            return verb(request, context)

        return handle

    def _find(self, name: str, context: Any) -> auth_pb2.Account:
        if name not in self.accounts:
            context.abort(grpc.StatusCode.NOT_FOUND, f"account {name} does not exist")
        return self.accounts[name]

    def _create(self, request: Any, context: Any) -> auth_pb2.Account:
        if request.name in self.accounts:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"account {request.name} exists already")
        made = auth_pb2.Account(name=request.name, email=account_email(request.name, SERVER_ID))
        made.create_time.FromSeconds(1_700_000_000)
        return self.accounts.setdefault(request.name, made)

    def _list(self, request: Any, context: Any) -> auth_pb2.ListAccountsResponse:
        # Pages of one, so that paging is seen to work.
        names = sorted(self.accounts)
        start = int(request.page_token or 0)
        more = str(start + 1) if start + 1 < len(names) else ""
        found = [self.accounts[name] for name in names[start : start + 1]]
        return auth_pb2.ListAccountsResponse(accounts=found, next_page_token=more)

    def _delete(self, request: Any, context: Any) -> auth_pb2.DeleteAccountResponse:
        self._find(request.name, context)
        del self.accounts[request.name]
        return auth_pb2.DeleteAccountResponse()

    def _add_key(self, request: Any, context: Any) -> auth_pb2.Account:
        account = self._find(request.account, context)
        public = serialization.load_pem_public_key(request.public_key.encode())
        der = public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        key = account.keys.add(
            id=hashlib.sha256(der).hexdigest()[:40], public_key=request.public_key
        )
        if request.HasField("expire_time"):
            key.expire_time.CopyFrom(request.expire_time)
        return account

    def _revoke_key(self, request: Any, context: Any) -> auth_pb2.Account:
        account = self._find(request.account, context)
        return _without(account, account.keys, request.key_id, context)

    def _create_token(self, request: Any, context: Any) -> auth_pb2.CreateTokenResponse:
        if request.account not in self.accounts:
            self._create(auth_pb2.CreateAccountRequest(name=request.account), context)
        account = self.accounts[request.account]
        self.made_tokens.append(f"flt_secret{len(self.made_tokens)}")
        token = account.tokens.add(id=f"token{len(self.made_tokens)}")
        if request.HasField("expire_time"):
            token.expire_time.CopyFrom(request.expire_time)
        return auth_pb2.CreateTokenResponse(
            token=self.made_tokens[-1], created=token, account=account
        )

    def _revoke_token(self, request: Any, context: Any) -> auth_pb2.Account:
        account = self._find(request.account, context)
        return _without(account, account.tokens, request.token_id, context)

    def _policy(self, name: str) -> auth_pb2.AccessPolicy:
        return self.policies.setdefault(name, auth_pb2.AccessPolicy(etag=b"0"))

    def _put(self, name: str, policy: Any, context: Any) -> auth_pb2.AccessPolicy:
        self.between()
        present = self._policy(name)
        if policy.etag and policy.etag != present.etag:
            context.abort(grpc.StatusCode.ABORTED, "the policy was changed")
        self.replace(name, {one.role: list(one.members) for one in policy.bindings})
        return self.policies[name]

    def replace(self, name: str, bindings: dict[str, list[str]]) -> None:
        etag = b"%d" % (int(self._policy(name).etag) + 1)
        made = self.policies[name] = auth_pb2.AccessPolicy(etag=etag)
        for role, members in bindings.items():
            made.bindings.add(role=role, members=members)


def _without(account: Any, credentials: Any, wanted: str, context: Any) -> Any:
    kept = [one for one in credentials if one.id != wanted]
    if len(kept) == len(credentials):
        context.abort(grpc.StatusCode.NOT_FOUND, f"{wanted} is not of {account.name}")
    del credentials[:]
    credentials.extend(kept)
    return account


def _google(policy: auth_pb2.AccessPolicy) -> policy_pb2.Policy:
    made = policy_pb2.Policy(etag=policy.etag, version=1)
    for binding in policy.bindings:
        made.bindings.add(role=binding.role, members=binding.members)
    return made


@contextmanager
def serving() -> Iterator[AuthServer]:
    fake = AuthServer()
    handlers: dict[str, dict[str, Any]] = {}
    for path, (request_type, verb) in fake.verbs().items():
        service, method = path.split("/")
        handlers.setdefault(service, {})[method] = grpc.unary_unary_rpc_method_handler(
            fake.handled(method, verb),
            request_deserializer=request_type.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )
    with futures.ThreadPoolExecutor(max_workers=2) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers(
            tuple(grpc.method_handlers_generic_handler(*one) for one in handlers.items())
        )
        fake.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        yield fake
        server.stop(None).wait()
