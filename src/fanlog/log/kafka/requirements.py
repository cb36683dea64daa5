"""What the topic of a log must be like, as a table; and what is wrong with one that is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fanlog import limits
from fanlog.log.kafka.client import KafkaOptions


class Requirement(NamedTuple):
    """One setting of the topic."""

    setting: str
    #: The topic is made with it.
    wanted: str
    #: Whether another value does as well.
    suffices: Callable[[str], bool]
    #: What happens with a value that does not.
    otherwise: str


class Flaw(NamedTuple):
    """Something about a topic that must be changed."""

    sentence: str
    #: What `kafka-configs.sh` is to add; empty where that cannot help.
    change: str = ""


def requirements(options: KafkaOptions) -> tuple[Requirement, ...]:
    """All that a topic must have."""
    in_sync = min(limits.KAFKA_IN_SYNC_MIN, options.replicas)
    size = limits.KAFKA_BATCH_BYTES_MAX
    table = [
        _exactly("retention.ms", "-1", "records are deleted by their age"),
        _exactly("retention.bytes", "-1", "records are deleted when there are many"),
        _exactly("cleanup.policy", "delete", "records are compacted away"),
        _exactly("message.timestamp.type", "LogAppendTime", "a wrong clock writes wrong times"),
        _exactly(
            "unclean.leader.election.enable", "false", "a replica that lacks records may lead"
        ),
        _at_least("min.insync.replicas", in_sync, "too few machines have an acknowledged record"),
        _at_least("max.message.bytes", size, "a large commit is refused"),
        _at_least("segment.bytes", size, "a large commit is refused"),
    ]
    if options.is_flushed:
        table.append(_exactly("flush.messages", "1", "replicas acknowledge what they did not sync"))
    return tuple(table)


def settings_of_new(options: KafkaOptions) -> dict[str, str]:
    """What the topic is made with; a node's own settings for topics do not matter then."""
    wanted = {each.setting: each.wanted for each in requirements(options)}
    return wanted | {"segment.bytes": str(limits.KAFKA_SEGMENT_BYTES)}


def flaws(
    options: KafkaOptions, partitions: int, replicas: int, settings: Mapping[str, str]
) -> list[Flaw]:
    """Everything that is wrong with a topic of such a shape and such settings."""
    found = []
    if partitions != 1:
        found.append(Flaw(f"it has {partitions} partitions and must have 1"))
    if replicas < options.replicas:
        found.append(
            Flaw(
                f"it has {_counted(replicas)} and must have {options.replicas} (fewer machines have"
                " a record; kafka-reassign-partitions.sh adds replicas)"
            )
        )
    for each in requirements(options):
        value = settings.get(each.setting)
        if value is None:
            found.append(Flaw(f"these servers do not tell its {each.setting}"))
        elif not each.suffices(value):
            found.append(
                Flaw(
                    f"{each.setting} is {value} and must be {each.wanted} ({each.otherwise})",
                    f"{each.setting}={each.wanted}",
                )
            )
    in_sync = settings.get("min.insync.replicas", "")
    if in_sync.isdecimal() and int(in_sync) > replicas:
        found.append(
            Flaw(
                f"min.insync.replicas is {in_sync} and it has {_counted(replicas)} (nothing can be"
                " written)"
            )
        )
    return found


def remedy(options: KafkaOptions, found: Sequence[Flaw]) -> str:
    """The command that changes what can be changed by one."""
    changes = ",".join(flaw.change for flaw in found if flaw.change)
    if not changes:
        return ""
    return (
        f". Change it with: kafka-configs.sh --bootstrap-server {options.servers} --alter"
        f" --entity-type topics --entity-name {options.topic} --add-config {changes}"
    )


def _exactly(setting: str, wanted: str, otherwise: str) -> Requirement:
    return Requirement(setting, wanted, wanted.__eq__, otherwise)


def _at_least(setting: str, least: int, otherwise: str) -> Requirement:
    def suffices(value: str) -> bool:
        return value.isdecimal() and int(value) >= least

    return Requirement(setting, str(least), suffices, otherwise)


def _counted(replicas: int) -> str:
    return f"{replicas} replica" if replicas == 1 else f"{replicas} replicas"
