"""Metrics: they are read off the broker and the transport when somebody looks, and not before."""
