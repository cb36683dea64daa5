"""Schemas at the broker: definitions compiled and kept, and the process that examines them."""
