"""Delivery: from a partition of the log to the consumers of a subscription."""
