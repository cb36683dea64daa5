"""OTLP: metrics and spans are sent to a collector, where one is named."""
