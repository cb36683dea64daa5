"""Every command of `fanlog`, put together."""

from __future__ import annotations

from fanlog.cli import (
    auth,
    dead_letters,
    filters,
    folder,
    inspection,
    jobs,
    lake,
    messages,
    nacking,
    outbox,
    pipeline,
    policies,
    rejected,
    reopening,
    schedules,
    schemas,
    seal_keys,
    seeking,
    serve,
    subscriptions,
    topics,
    up,
)
from fanlog.cli.groups import add_command
from fanlog.cli.root import new_app

app = new_app()
add_command(app)(serve.serve)
app.command()(pipeline.pipeline)
app.command()(up.up)
app.add_typer(topics.app, name="topic")
add_command(subscriptions.app)(seeking.seek)
add_command(subscriptions.app)(reopening.reopen)
add_command(subscriptions.app)(nacking.nack)
add_command(subscriptions.app)(inspection.peek)
add_command(subscriptions.app)(inspection.purge)
add_command(subscriptions.app)(inspection.backlog)
app.add_typer(subscriptions.app, name="sub")
app.add_typer(dead_letters.app, name="dead-letter")
app.add_typer(schemas.app, name="schema")
app.add_typer(schedules.app, name="schedule")
app.add_typer(jobs.app, name="job")
app.add_typer(rejected.app, name="export")
app.add_typer(outbox.app, name="outbox")
app.add_typer(lake.app, name="lake")
auth.app.add_typer(policies.app, name="policy")
auth.app.add_typer(seal_keys.app, name="seal-key")
auth.app.command("init")(folder.init_auth)
app.add_typer(auth.app, name="auth")
app.add_typer(inspection.messages, name="message")
add_command(app)(messages.publish)
add_command(app)(messages.pull)
app.command("filter")(filters.check)
app.command()(folder.doctor)
app.command()(folder.backup)
app.command()(folder.restore)
app.command()(folder.compact)
