"""Jobs: Spark programs that a caller asks for and that end."""
