"""What a filter would have matched, before anybody subscribes with it."""

from fanlog import Client, JobClient

with Client() as client:
    jobs = JobClient(client)
    job = jobs.create(
        "projects/examples",
        "backtest",
        {"topics": ["sales"], "filter": 'attributes.region = "eu" AND payload.amount < 100'},
    )
    found = jobs.wait(job.name).result
    print(f"{int(found['matched'])} of {int(found['messages'])} messages")
