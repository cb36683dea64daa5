from fanlog.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReceiveRequest(_message.Message):
    __slots__ = ("messages", "subscription")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ReceivedMessage]
    subscription: str
    def __init__(self, messages: _Optional[_Iterable[_Union[ReceivedMessage, _Mapping]]] = ..., subscription: _Optional[str] = ...) -> None: ...

class ReceivedMessage(_message.Message):
    __slots__ = ("ack_id", "message", "delivery_attempt")
    ACK_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ack_id: str
    message: _message_pb2.Message
    delivery_attempt: int
    def __init__(self, ack_id: _Optional[str] = ..., message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., delivery_attempt: _Optional[int] = ...) -> None: ...

class ReceiveResponse(_message.Message):
    __slots__ = ("refusals",)
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("ack_id", "reason", "delay_seconds", "terminal", "uncounted")
    ACK_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    UNCOUNTED_FIELD_NUMBER: _ClassVar[int]
    ack_id: str
    reason: str
    delay_seconds: float
    terminal: bool
    uncounted: bool
    def __init__(self, ack_id: _Optional[str] = ..., reason: _Optional[str] = ..., delay_seconds: _Optional[float] = ..., terminal: _Optional[bool] = ..., uncounted: _Optional[bool] = ...) -> None: ...
