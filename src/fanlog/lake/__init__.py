"""The lake: Delta tables of everything that was published, and how they are written and read."""
