"""The report of an examination of a data folder: counts, and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

#: `info`: worth knowing. `warning`: something was lost or is untidy, and the broker can live with
#: it. `error`: stored bytes are damaged or disagree with each other.
Severity = Literal["info", "warning", "error"]

#: Findings kept in a report; a broken disk has millions, and all say the same.
FINDINGS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    #: A sentence that names the place.
    text: str


@dataclass(slots=True, kw_only=True)
class FolderReport:
    """Counts and findings, filled while a folder is read. Not safe to share between threads."""

    data_dir: Path
    partition_count: int = 0
    batch_count: int = 0
    message_count: int = 0
    #: Messages that should be there and are damaged or missing.
    lost_message_count: int = 0
    state_count: int = 0
    #: Bytes of all batches, headers included.
    batch_bytes: int = 0
    state_bytes: int = 0
    file_bytes: int = 0
    last_sequence: int = 0
    findings: list[Finding] = field(default_factory=list)
    #: Findings beyond `FINDINGS_MAX`, counted only.
    more_findings_count: int = 0

    @property
    def is_healthy(self) -> bool:
        """No error was found. Warnings do not count."""
        return all(finding.severity != "error" for finding in self.findings)

    def add(self, severity: Severity, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(severity, text))
        else:
            self.more_findings_count += 1
