"""The partition of a shard in Apache Kafka, or a service that speaks its protocol.

Needs the extra `kafka`; nothing else imports `confluent_kafka`.

Raises:
    ConfigError: The extra is not installed.
"""

from __future__ import annotations

from fanlog.errors import ConfigError

try:
    import confluent_kafka as _confluent_kafka  # noqa: F401
except ImportError as error:
    raise ConfigError(
        "a cluster needs confluent-kafka, which is not installed: pip install 'fanlog[kafka]'"
    ) from error
