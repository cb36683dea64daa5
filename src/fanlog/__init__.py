"""Fanlog: a durable publish/subscribe service that speaks the Google Cloud Pub/Sub API."""
