"""What monitors a server: a dashboard and alert rules, of the table of metrics."""
