"""The asyncio shell that introduces the core to the log. Open `broker.py` first."""
