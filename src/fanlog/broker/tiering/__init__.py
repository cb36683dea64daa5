"""The broker's side of tiering: what the lake is believed to hold, and what the log drops."""
