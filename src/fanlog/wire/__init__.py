"""Protobuf to the product's values and back; errors to statuses. The only such place."""
