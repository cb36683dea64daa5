"""Exports: messages become rows of a typed table, or lines and records of files.

The rows and files of a batch are functions of its messages and of the export's settings alone, so
that they can be made again after a crash. Needs the extra `lake`.

| module                          | part                                                           |
|---------------------------------|----------------------------------------------------------------|
| `rules/`                        | how a message becomes a row; no I/O                            |
| `batch`, `bucket_files`         | a task writes a batch, the driver commits it                   |
| `source`, `flow`                | Spark reads, writes and commits; the broker is told            |
| `rejected`, `rejected_table`    | messages that did not fit, and their redrive                   |

Each layer has its own surface of exports, and none of their work: `model/exports.py` checks the
settings, `core/export_records.py` and `broker/verbs/exports.py` hand out batches and acknowledge
them, `wire/exports.py` and `server/exports_api.py` are the API, `client/exports.py` calls it, and
`cli/exports.py` and `cli/rejected.py` are commands.
"""
