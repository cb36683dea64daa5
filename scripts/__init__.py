"""Programs that write files of this repository from the code."""
