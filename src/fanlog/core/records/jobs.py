"""The record of a job."""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.core.records.codec import Form, Stored, digest_of, json_of, record
from fanlog.model.jobs import Job

#: A name may be longer than a key: its hash is the key, and the job itself has the name.
_HASHED_NAME = Form(digest_of, lambda digest: (digest,))


@record("J", key=_HASHED_NAME, value=json_of(Job), key_of=lambda job: (job.name,))
@dataclass(frozen=True, slots=True)
class JobRecord(Stored):
    name: str
    job: Job | None
