"""Every command of `fanlog`, put together."""

from __future__ import annotations

from fanlog.cli import (
    alerts,
    auth,
    browsing,
    cluster,
    dead_letters,
    filters,
    folder,
    following,
    importing,
    inspection,
    jobs,
    lake,
    messages,
    nacking,
    outbox,
    overview,
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
    top,
    topics,
    up,
    workers,
)
from fanlog.cli.groups import add_command
from fanlog.cli.root import new_app

app = new_app()
add_command(app)(serve.serve)
app.command()(pipeline.pipeline)
app.command()(up.up)
add_command(topics.app, "search")(overview.search_topics)
add_command(topics.app)(following.watch)
add_command(topics.app, "estimate")(overview.estimate_topic)
add_command(topics.app, "try-filter")(browsing.try_filter)
app.add_typer(topics.app, name="topic")
add_command(subscriptions.app)(seeking.seek)
add_command(subscriptions.app)(reopening.reopen)
add_command(subscriptions.app)(nacking.nack)
add_command(subscriptions.app)(inspection.peek)
add_command(subscriptions.app)(inspection.purge)
add_command(subscriptions.app)(inspection.backlog)
add_command(subscriptions.app, "search")(overview.search_subscriptions)
add_command(subscriptions.app)(following.tail)
add_command(subscriptions.app)(overview.delivery)
add_command(subscriptions.app)(overview.estimate)
app.add_typer(subscriptions.app, name="sub")
app.add_typer(dead_letters.app, name="dead-letter")
app.add_typer(schemas.app, name="schema")
app.add_typer(schedules.app, name="schedule")
app.add_typer(alerts.app, name="alert")
jobs.app.command("workers")(workers.workers)
app.add_typer(jobs.app, name="job")
app.add_typer(rejected.app, name="export")
app.add_typer(outbox.app, name="outbox")
app.add_typer(lake.app, name="lake")
add_command(cluster.app, "import")(importing.import_folder)
app.add_typer(cluster.app, name="cluster")
auth.app.add_typer(policies.app, name="policy")
auth.app.add_typer(seal_keys.app, name="seal-key")
auth.app.command("init")(folder.init_auth)
app.add_typer(auth.app, name="auth")
add_command(inspection.messages)(browsing.browse)
app.add_typer(inspection.messages, name="message")
add_command(app)(overview.problems)
add_command(app)(overview.status)
add_command(app)(top.top)
add_command(app)(messages.publish)
add_command(app)(messages.pull)
app.command("filter")(filters.check)
add_command(app)(folder.doctor)
app.command()(folder.backup)
app.command()(folder.restore)
app.command()(folder.compact)
