"""Push configs: protobuf to model and back; secrets only come in."""

from __future__ import annotations

from dataclasses import replace

from fanlog import limits
from fanlog.errors import InvalidArgument, Unimplemented
from fanlog.model import endpoints, names
from fanlog.model.attributes import WEBHOOK_SECRET
from fanlog.model.resources import PushConfig
from fanlog.wire import types

_VERSION_ATTRIBUTE = "x-goog-version"
#: Versions of Google's API that have the body of today.
_VERSIONS = ("v1", "v1beta2")


def push_config(message: types.PushConfig) -> PushConfig | None:
    """Read a PushConfig; None for the empty one, which means pull.

    Raises:
        InvalidArgument: It has other fields and no endpoint, or an attribute is not known.
        Unimplemented: A version of the body that is not written here.
    """
    if not message.ListFields():
        return None
    if not message.push_endpoint:
        raise InvalidArgument(
            f"{endpoints.FIELD}: empty, and push_config says other things; give an endpoint to "
            "push to, or leave all of it unset to pull"
        )
    if len(message.attributes) > limits.ATTRIBUTES_MAX:
        raise InvalidArgument(
            f"push_config.attributes: {len(message.attributes)} attributes; at most "
            f"{limits.ATTRIBUTES_MAX} are allowed"
        )
    attributes = dict(message.attributes)
    webhook_secrets = endpoints.parse_secrets(attributes.pop(WEBHOOK_SECRET, ""))
    _check_attributes(attributes)
    wrapper = message.WhichOneof("wrapper")
    if wrapper == "pubsub_wrapper" and endpoints.is_grpc(message.push_endpoint):
        raise InvalidArgument(
            "push_config.pubsub_wrapper: a gRPC endpoint gets messages, not bodies; leave it out"
        )
    if message.HasField("oidc_token") and not message.oidc_token.service_account_email:
        raise InvalidArgument("push_config.oidc_token.service_account_email: empty")
    return PushConfig(
        endpoint=message.push_endpoint,
        attributes=attributes,
        no_wrapper=wrapper == "no_wrapper",
        write_metadata=message.no_wrapper.write_metadata,
        oidc_email=message.oidc_token.service_account_email,
        oidc_audience=message.oidc_token.audience,
        webhook_secrets=webhook_secrets,
    )


def push_changes(message: types.PushConfig) -> dict[str, object]:
    """Read the PushConfig of an update, as changes to a subscription; raises as `push_config`.

    Secrets stay unless its attributes name them; an empty text removes them.
    """
    push = push_config(message)
    if push is None or WEBHOOK_SECRET not in message.attributes:
        return {"push": push}
    return {
        "push": replace(push, webhook_secrets=()),
        "push.webhook_secrets": push.webhook_secrets,
    }


def push_config_pb(push: PushConfig | None) -> types.PushConfig:
    """Make the PushConfig that answers show."""
    message = types.PushConfig()
    if push is None:
        return message
    message.push_endpoint = push.endpoint
    message.attributes.update(push.attributes)
    if push.no_wrapper:
        message.no_wrapper.write_metadata = push.write_metadata
        message.no_wrapper.SetInParent()
    if push.oidc_email:
        message.oidc_token.service_account_email = push.oidc_email
        message.oidc_token.audience = push.oidc_audience
    return message


def _check_attributes(attributes: dict[str, str]) -> None:
    for name, value in attributes.items():
        if name != _VERSION_ATTRIBUTE:
            raise InvalidArgument(
                f"push_config.attributes: {names.shown(name)} is not known; "
                f"{_VERSION_ATTRIBUTE} and {WEBHOOK_SECRET} are"
            )
        if value not in _VERSIONS:
            raise Unimplemented(
                f"push_config.attributes: {_VERSION_ATTRIBUTE} {names.shown(value)} is not "
                f"supported; {' and '.join(_VERSIONS)} are"
            )
