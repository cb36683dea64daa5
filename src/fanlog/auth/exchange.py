"""The exchange of a signed assertion for an access token, RFC 7523.

Libraries that do not send tokens that they signed themselves post one to the `token_uri` of their
key file, and call with the access token that is the answer.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fanlog.auth.access_tokens import LIFE_S, AccessToken
from fanlog.auth.authenticator import TOKEN_PATH, Authenticator
from fanlog.auth.disbelief import NotBelieved
from fanlog.auth.signed_token import SignedToken
from fanlog.broker.clock import Clock
from fanlog.errors import RateExceeded

#: What Google's library for Python says an assertion is for, whatever `token_uri` says.
_GOOGLE_TOKEN: Final = "https://oauth2.googleapis.com/token"
#: Access tokens that one address, and one account, may ask for a minute.
_GRANTS_MAX: Final = 60
_MINUTE_S: Final = 60.0
#: Addresses and accounts that are counted; the one that asked longest ago is forgotten first.
_COUNTED_MAX: Final = 10_000


class Exchange:
    """Grants access tokens. Lives on the loop."""

    def __init__(
        self, authenticator: Authenticator, clock: Clock, access_secret: Callable[[], bytes]
    ) -> None:
        self._authenticator = authenticator
        self._clock = clock
        self._access_secret = access_secret
        #: The minute of the last grant, and the grants in it; the one that asked last is last.
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()

    async def grant(self, assertion: str, address: str) -> tuple[str, int]:
        """An access token for a token that a service account signed, and its seconds.

        Raises:
            Unauthenticated: The assertion is not believed.
            RateExceeded: The address, or the account, asked too often.
        """
        try:
            token = SignedToken.parse(assertion)
            account, key, _ = self._authenticator.signer(token)
            audiences = token.audiences()
            if not any(one.endswith(TOKEN_PATH) or one == _GOOGLE_TOKEN for one in audiences):
                raise NotBelieved("the assertion is for another audience")
        except NotBelieved as reason:
            raise await self._authenticator.refusal(reason, address) from None
        # Failures are slowed down; they use up nothing of those that are behind the same address.
        self._count(f"address {address}")
        self._count(f"account {account.email}")
        now_s = self._clock.wall_ns() / 1e9
        key_ends_s = math.inf if key.expires_s is None else key.expires_s
        ends_s = min(now_s + LIFE_S, key_ends_s)
        made = AccessToken(account.email, key.id, int(ends_s))
        return made.sign(self._access_secret()), int(ends_s - now_s)

    def _count(self, asker: str) -> None:
        minute = int(self._clock.now() // _MINUTE_S)
        at, count = self._counts.pop(asker, (minute, 0))
        count = count + 1 if at == minute else 1
        self._counts[asker] = (minute, count)
        if len(self._counts) > _COUNTED_MAX:
            self._counts.popitem(last=False)
        if count > _GRANTS_MAX:
            left_s = (minute + 1) * _MINUTE_S - self._clock.now()
            raise RateExceeded(
                f"more than {_GRANTS_MAX} access tokens a minute were asked for; one is good "
                f"for {LIFE_S} s",
                left_s,
            )
