"""The `fanlog` command. Everything but `serve` and the data folder goes through the client."""
