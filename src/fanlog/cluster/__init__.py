"""A cluster: several processes that serve one log. See ARCHITECTURE.md, "Nodes"."""
