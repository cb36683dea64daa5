"""The pipeline: what moves messages in bulk, on Spark. Flows never end, jobs do.

A process of its own, started by `fanlog pipeline`. It talks to the broker as any client does, and
may die at any time: what it does to the lake and to the log happens once.
"""
