"""Options of `fanlog sub create` and `update` for the backlog policy of a subscription."""

from __future__ import annotations

from fanlog.cli import options
from fanlog.cli.groups import FLAG, Setting
from fanlog.errors import InvalidArgument
from fanlog.model.attributes import (
    LABEL_BACKLOG_AGE,
    LABEL_BACKLOG_BLOCK,
    LABEL_BACKLOG_BYTES,
    LABEL_BACKLOG_CRITICAL,
    LABEL_BACKLOG_FALLBACK,
    LABEL_BACKLOG_GROUP,
    LABEL_BACKLOG_HIGH,
    LABEL_BACKLOG_LOW,
    LABEL_BACKLOG_MESSAGES,
    LABEL_BACKLOG_POLICY,
    LABEL_BACKLOG_SUMMARIES,
)
from fanlog.model.backlog_policy import WAYS

#: Takes a label away.
_NONE = "none"


def _read(text: str, _: str) -> str | None:
    return None if text == _NONE else text


def _read_s(text: str, option: str) -> str | None:
    if text == _NONE:
        return None
    seconds = options.duration_s(text, option)
    if not seconds.is_integer():
        raise InvalidArgument(f"{option} {text!r} must be whole seconds")
    return str(int(seconds))


BACKLOG_SETTINGS: tuple[Setting, ...] = (
    Setting(
        *("backlog_policy", f"labels.{LABEL_BACKLOG_POLICY}"),
        "What happens when the backlog is full; keep by default.",
        metavar="|".join((*WAYS, _NONE)),
        read=_read,
    ),
    Setting(
        *("backlog_messages", f"labels.{LABEL_BACKLOG_MESSAGES}"),
        "The most messages that the backlog is to have.",
        metavar=f"NUMBER|{_NONE}",
        read=_read,
    ),
    Setting(
        *("backlog_bytes", f"labels.{LABEL_BACKLOG_BYTES}"),
        "The most bytes that the backlog is to have.",
        metavar=f"NUMBER|{_NONE}",
        read=_read,
    ),
    Setting(
        *("backlog_age", f"labels.{LABEL_BACKLOG_AGE}"),
        "The oldest that a message of the backlog is to be: 1s to 31d.",
        metavar=f"TIME|{_NONE}",
        read=_read_s,
    ),
    Setting(
        *("backlog_high", f"labels.{LABEL_BACKLOG_HIGH}"),
        "The part of a limit above which the backlog is told to be high; 0.8 by default.",
        metavar=f"PART|{_NONE}",
        read=_read,
    ),
    Setting(
        *("backlog_low", f"labels.{LABEL_BACKLOG_LOW}"),
        "The part of a limit at which it is low again; 0.5 by default.",
        metavar=f"PART|{_NONE}",
        read=_read,
    ),
    Setting(
        *("backlog_critical", f"labels.{LABEL_BACKLOG_CRITICAL}"),
        create="With --backlog-policy push-back: it may push back on publishers.",
        update="With --backlog-policy push-back: it may push back on publishers, or may not.",
        kind=FLAG,
        read=lambda is_critical, _: "true" if is_critical else None,
    ),
    Setting(
        *("backlog_fallback", f"labels.{LABEL_BACKLOG_FALLBACK}"),
        "What happens instead of push-back where the subscription is not critical.",
        metavar="|".join((*WAYS[:-1], _NONE)),
        read=_read,
    ),
    Setting(
        *("backlog_block", f"labels.{LABEL_BACKLOG_BLOCK}"),
        "How long a publish waits for room before it is refused: 1s to 50s; it does not by"
        " default.",
        metavar=f"TIME|{_NONE}",
        read=_read_s,
    ),
    Setting(
        *("backlog_group", f"labels.{LABEL_BACKLOG_GROUP}"),
        "Share the limits with the subscriptions of the project that have the same group.",
        metavar=f"NAME|{_NONE}",
        read=_read,
    ),
    Setting(
        *("backlog_summaries", f"labels.{LABEL_BACKLOG_SUMMARIES}"),
        "With --backlog-policy sample: how often a message says what was left out.",
        metavar=f"TIME|{_NONE}",
        read=_read_s,
    ),
)
