"""Databases of programs, by any DB-API module: what statements on them need to know."""
