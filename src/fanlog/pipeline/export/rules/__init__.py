"""The rules of exports: how a message becomes a row of a table. No I/O: values in, values out."""
