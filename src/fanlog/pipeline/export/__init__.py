"""Exports: messages become rows of a typed table, or lines and records of files.

What a batch becomes depends on nothing but its rows and what was asked for, so that it can be made
again after a crash. Needs the extra `lake`.
"""
