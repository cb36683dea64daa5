"""Flows: Spark queries that the pipeline keeps running."""
