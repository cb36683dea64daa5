"""fanlog.v1.Auth, for any surface."""

from __future__ import annotations

import asyncio
import math

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.core.authority import ANONYMOUS
from fanlog.core.iam import SERVER
from fanlog.core.roles import ALL, ROLES, CustomRole
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.server.calls import Call
from fanlog.server.methods import method, method_with_call
from fanlog.server.needs import resource_name
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import paging
from fanlog.wire.auth import account_pb, bindings_of, policy_pb, read_public_key, role_pb, token_pb
from fanlog.wire.fields import time_ns_of, timestamp


async def create_account(broker: Broker, request: pb.CreateAccountRequest) -> pb.Account:
    return account_pb(await broker.accounts.create(request.name))


async def get_account(broker: Broker, request: pb.GetAccountRequest) -> pb.Account:
    return account_pb(await broker.accounts.get(request.name))


async def list_accounts(broker: Broker, request: pb.ListAccountsRequest) -> pb.ListAccountsResponse:
    page = paging.read_page("service accounts", request)
    found = await broker.accounts.list_all(page.after, page.size + 1)
    shown, token = page.fill(found, lambda account: account.name, account_pb)
    return pb.ListAccountsResponse(accounts=shown, next_page_token=token)


async def delete_account(
    broker: Broker, request: pb.DeleteAccountRequest
) -> pb.DeleteAccountResponse:
    await broker.accounts.delete(request.name)
    return pb.DeleteAccountResponse()


async def add_key(broker: Broker, request: pb.AddKeyRequest) -> pb.Account:
    key_id, public = await asyncio.to_thread(read_public_key, request.public_key)
    expires_s = _expires_s(request)
    return account_pb(await broker.accounts.add_key(request.account, key_id, public, expires_s))


async def revoke_key(broker: Broker, request: pb.RevokeKeyRequest) -> pb.Account:
    return account_pb(await broker.accounts.revoke_key(request.account, request.key_id))


async def create_token(broker: Broker, request: pb.CreateTokenRequest) -> pb.CreateTokenResponse:
    text, token, account = await broker.accounts.create_token(request.account, _expires_s(request))
    return pb.CreateTokenResponse(token=text, created=token_pb(token), account=account_pb(account))


async def revoke_token(broker: Broker, request: pb.RevokeTokenRequest) -> pb.Account:
    return account_pb(await broker.accounts.revoke_token(request.account, request.token_id))


async def get_policy(broker: Broker, request: pb.GetPolicyRequest) -> pb.AccessPolicy:
    return policy_pb(await broker.iam.get_scope(_scope(request.resource)))


async def set_policy(broker: Broker, request: pb.SetPolicyRequest) -> pb.AccessPolicy:
    if not request.HasField("policy"):
        raise InvalidArgument("policy: required; an empty one takes all roles away")
    scope = _scope(request.resource)
    bindings = bindings_of(request.policy)
    return policy_pb(await broker.iam.set_scope(scope, bindings, request.policy.etag))


async def list_roles(broker: Broker, _: pb.ListRolesRequest) -> pb.ListRolesResponse:
    built_in = [
        role_pb(CustomRole(name=name, permissions=tuple(permissions)), is_custom=False)
        for name, permissions in ROLES.items()
    ]
    custom = [role_pb(role, is_custom=True) for role in broker.hard.identities.roles.values()]
    return pb.ListRolesResponse(roles=[*built_in, *custom])


async def who_am_i(broker: Broker, _: pb.WhoAmIRequest, call: Call) -> pb.WhoAmIResponse:
    answer = pb.WhoAmIResponse(server_id=broker.accounts.server_id)
    principal = call.caller.principal
    if principal is not None and principal is not ANONYMOUS:
        answer.member = principal.member
        answer.groups.extend(sorted(principal.groups))
        if not math.isinf(principal.expires_s):
            answer.expire_time.CopyFrom(timestamp(principal.expires_s))
    return answer


async def check_access(
    _: Broker, request: pb.CheckAccessRequest, call: Call
) -> pb.CheckAccessResponse:
    for field, most in (
        ("resources", limits.ACCESS_RESOURCES_MAX),
        ("permissions", limits.ACCESS_PERMISSIONS_MAX),
    ):
        if len(getattr(request, field)) > most:
            raise InvalidArgument(f"{field}: {len(getattr(request, field))}; at most {most}")
    for permission in request.permissions:
        if permission not in ALL:
            raise InvalidArgument(f"permissions: {names.shown(permission)} is no permission")
    asked = list(request.permissions) or sorted(ALL)
    answer = pb.CheckAccessResponse()
    for number, resource in enumerate(request.resources):
        _check_resource(resource, f"resources[{number}]")
        granted = answer.granted.add(resource=resource)
        granted.permissions.extend(one for one in asked if call.caller.may(one, resource))
        await asyncio.sleep(0)
    return answer


def _check_resource(resource: str, field: str) -> None:
    """Raises InvalidArgument: It is neither the server, nor a project, nor a resource of one."""
    if resource != SERVER and resource.count("/") == 1:
        names.parse_project(resource, field=field)
    elif resource != SERVER:
        resource_name(resource, field)


def _scope(resource: str) -> str:
    if resource == SERVER:
        return SERVER
    return names.project_name(names.parse_project(resource, field="resource"))


def _expires_s(request: pb.AddKeyRequest | pb.CreateTokenRequest) -> float | None:
    if not request.HasField("expire_time"):
        return None
    return time_ns_of(request.expire_time, "expire_time") / 1e9


METHODS = (
    method("CreateAccount", pb.CreateAccountRequest, pb.Account, create_account),
    method("GetAccount", pb.GetAccountRequest, pb.Account, get_account),
    method("ListAccounts", pb.ListAccountsRequest, pb.ListAccountsResponse, list_accounts),
    method("DeleteAccount", pb.DeleteAccountRequest, pb.DeleteAccountResponse, delete_account),
    method("AddKey", pb.AddKeyRequest, pb.Account, add_key),
    method("RevokeKey", pb.RevokeKeyRequest, pb.Account, revoke_key),
    method("CreateToken", pb.CreateTokenRequest, pb.CreateTokenResponse, create_token),
    method("RevokeToken", pb.RevokeTokenRequest, pb.Account, revoke_token),
    method("GetPolicy", pb.GetPolicyRequest, pb.AccessPolicy, get_policy),
    method("SetPolicy", pb.SetPolicyRequest, pb.AccessPolicy, set_policy),
    method("ListRoles", pb.ListRolesRequest, pb.ListRolesResponse, list_roles),
    method_with_call("CheckAccess", pb.CheckAccessRequest, pb.CheckAccessResponse, check_access),
    method_with_call("WhoAmI", pb.WhoAmIRequest, pb.WhoAmIResponse, who_am_i),
)
