"""Push over gRPC: calls of `fanlog.v1.Receiver`, each with as many messages as there are.

A call that fails says nothing of which message it failed for. So what has failed before goes alone:
a message that cannot be taken costs those beside it one attempt, and not all of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fanlog import limits
from fanlog.core.redelivery import Nack
from fanlog.errors import InvalidArgument
from fanlog.model.ids import ACK_OFFSET_DIGITS
from fanlog.model.resources import Subscription
from fanlog.push.rules import Outcome, of_error, printable
from fanlog.push.senders.sender import Leased, Sender
from fanlog.wire.frame import frame_received
from fanlog.wire.receiver import Refusal, receive_request, refusals


class GrpcSender(Sender):
    messages_max = limits.PUSH_CALL_MESSAGES_MAX
    bytes_max = limits.PUSH_CALL_BYTES_MAX

    def _most(self, room: int) -> int:
        # Any of those that failed may be among the next, and wants a call of its own.
        return min(room, self.messages_max) if self._failures else self.messages_max

    def _requests(self, taken: Iterable[Leased]) -> Iterator[Sequence[Leased]]:
        together: list[Leased] = []
        for one in taken:
            if one.attempt > 1 or one.key in self._failures:
                yield (one,)
            else:
                together.append(one)
        if together:
            yield together

    async def _send(self, messages: Sequence[Leased]) -> None:
        host = await self._enter(messages)
        if host is None:
            return
        subscription, endpoint = self._subscription, self._endpoint
        try:
            outcome, answer = await self._call(subscription, messages)
        finally:
            self._tools.gate.leave(host)
        refused: dict[str, Refusal] = {}
        if outcome.is_ack:
            try:
                refused = refusals(answer, {one.ack_id for one in messages})
            except InvalidArgument as error:
                outcome = of_error(error.message)
        self._note(endpoint, outcome)
        if not outcome.is_ack:
            await self._refused(subscription, messages, outcome)
            return
        self._acknowledge(one for one in messages if one.ack_id not in refused)
        if refused:
            nacks = [(m, _nack(refused[m.ack_id])) for m in messages if m.ack_id in refused]
            await self._nack(subscription, nacks)

    async def _call(
        self, subscription: Subscription, messages: Sequence[Leased]
    ) -> tuple[Outcome, bytes]:
        push = subscription.push
        assert push is not None
        token = await self._token(push)
        if token is None:
            return of_error("NoToken"), b""
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        return await self._tools.caller.receive(
            self._endpoint,
            receive_request(map(_frame, messages), subscription.name),
            metadata,
            subscription.push_timeout_s,
        )


def _frame(one: Leased) -> bytes:
    prefix = one.ack_id[:-ACK_OFFSET_DIGITS].encode()
    return frame_received(one.batch, (one.index,), prefix, attempt=one.attempt, added=one.added)


def _nack(refusal: Refusal) -> Nack:
    return Nack(
        delay_s=refusal.delay_s,
        is_terminal=refusal.is_terminal,
        reason=printable(refusal.reason),
    )
