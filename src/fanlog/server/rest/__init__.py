"""REST on the HTTP port: JSON in three forms, in front of the verbs that gRPC has."""
