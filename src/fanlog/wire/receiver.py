"""`fanlog.v1.Receiver` from the caller's side: requests made, answers read."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.v1 import receiver_pb2
from fanlog.wire.encode import field

METHOD = "/fanlog.v1.Receiver/Receive"

_TAG_SUBSCRIPTION = b"\x12"
_RETRY_INFO = error_details_pb2.RetryInfo.DESCRIPTOR.full_name


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that was not taken; fields as in `receiver.proto`."""

    reason: str
    #: None leaves it to the subscription.
    delay_s: float | None
    is_terminal: bool
    is_counted: bool = True


def receive_request(frames: Iterable[bytes], subscription: str) -> bytes:
    """A ReceiveRequest; frames are those of a pull's answer."""
    return b"".join([*frames, field(_TAG_SUBSCRIPTION, subscription.encode())])


def refusals(answer: bytes, sent: Collection[str]) -> dict[str, Refusal]:
    """Read a ReceiveResponse: its refusals, by ack id.

    Raises:
        InvalidArgument: It is no ReceiveResponse, or refuses an ack id that was not sent.
    """
    try:
        response = receiver_pb2.ReceiveResponse.FromString(answer)
    except DecodeError as error:
        raise InvalidArgument("the answer is no ReceiveResponse") from error
    found: dict[str, Refusal] = {}
    for refusal in response.refusals:
        if refusal.ack_id not in sent:
            shown = names.shown(refusal.ack_id)
            raise InvalidArgument(f"the answer refuses {shown}, which was not sent")
        found[refusal.ack_id] = Refusal(
            _cut(refusal.reason),
            _delay_s(refusal.delay_seconds),
            refusal.terminal,
            refusal.terminal or not refusal.uncounted,
        )
    return found


def retry_info_s(details: bytes) -> float | None:
    """The delay of a RetryInfo among the details of a status (`grpc-status-details-bin`)."""
    try:
        for detail in status_pb2.Status.FromString(details).details:
            if detail.type_url.rpartition("/")[2] == _RETRY_INFO:
                delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
                return float(delay.seconds + delay.nanos / 1e9)
    except DecodeError:
        # A wish that cannot be read is none.
        pass
    return None


def _cut(reason: str) -> str:
    return reason.encode()[: limits.NACK_REASON_BYTES_MAX].decode(errors="ignore")


def _delay_s(seconds: float) -> float | None:
    if math.isnan(seconds) or seconds <= 0:
        return None
    return min(seconds, float(limits.NACK_DELAY_S_MAX))
