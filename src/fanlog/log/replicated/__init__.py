"""The log on a replicated partition: an engine that wraps the embedded one. See `replicated.py`."""
