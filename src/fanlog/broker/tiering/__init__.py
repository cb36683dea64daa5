"""The broker's side of tiering: the messages that the lake is believed to have, and trims."""
