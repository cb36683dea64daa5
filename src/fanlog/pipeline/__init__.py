"""The pipeline: it moves messages in bulk, on Spark. Flows never end, jobs do.

A process of its own, started by `fanlog pipeline`. It talks to the broker as any client does, and
may die at any time: each of its changes to the lake and to the log happens once. `flows/` has the
archive, the dead letters and the statistics, `export/` the exports, `jobs/` the kinds of jobs.
"""
