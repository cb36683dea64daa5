"""The asyncio shell that introduces the core to the log. `broker.py` is the file to open first."""
