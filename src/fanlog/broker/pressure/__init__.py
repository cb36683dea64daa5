"""Backlogs with limits: what is dropped of them, who is pushed back on, how full they are."""
