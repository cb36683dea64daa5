"""The service's faces: gRPC and HTTP over the broker. `app.py` puts a server together."""
