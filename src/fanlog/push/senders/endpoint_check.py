"""The look at a push config before a subscription gets it: the broker's `CheckEndpoint`."""

from __future__ import annotations

from fanlog.errors import InvalidArgument
from fanlog.model import endpoints
from fanlog.model.resources import PushConfig
from fanlog.push.rules.kinds import kind_of
from fanlog.push.senders.host_resolver import AddressRefused, HostResolver, NameUnresolved


class EndpointCheck:
    """Refuses endpoints that may not be reached; forwards to topics are the broker's to check."""

    def __init__(self, resolver: HostResolver) -> None:
        self._resolver = resolver

    async def __call__(self, push: PushConfig) -> str:
        """A hint if the host of the endpoint does not resolve yet; empty if all is well.

        Raises:
            InvalidArgument: The endpoint may not be reached.
        """
        if kind_of(push) == "topic":
            return ""
        endpoint = endpoints.parse_web(push.endpoint)
        try:
            await self._resolver.check(endpoint)
        except AddressRefused as error:
            raise InvalidArgument(
                f"{endpoints.FIELD}: {error}: it is private, local or reserved. Who runs the "
                "service may allow its network with --push-allow"
            ) from error
        except NameUnresolved as error:
            return (
                f"the host of the push endpoint, {endpoint.host!r}, does not resolve: "
                f"{error.strerror}; it is looked up again at every attempt"
            )
        except OSError as error:
            raise InvalidArgument(f"{endpoints.FIELD}: {endpoint.host!r} is {error}") from error
        return ""
