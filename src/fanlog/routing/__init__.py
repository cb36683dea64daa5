"""Which subscriptions want a message: topic patterns, and filters with their back ends. Pure."""
