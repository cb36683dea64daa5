"""Deliver large orders again: the pipeline finds them, the broker reopens them."""

from fanlog import Client, JobClient

with Client() as client:
    jobs = JobClient(client)
    job = jobs.create(
        "projects/examples",
        "replay",
        {"subscription": "billing", "filter": "payload.amount >= 1000"},
    )
    job = jobs.wait(job.name)
    print("reopened", int(job.result["reopened"]))
