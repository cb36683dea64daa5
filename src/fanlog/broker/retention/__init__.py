"""Retention: the messages that the log keeps, and the room that is left for new ones."""
