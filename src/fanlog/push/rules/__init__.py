"""The rules of push, without I/O: time is an argument, addresses are given."""
