"""The verbs of the API besides publish, pull and acknowledge: one file for each noun."""
