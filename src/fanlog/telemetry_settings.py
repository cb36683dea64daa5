"""Settings of the export by OTLP, and the variables of OpenTelemetry that say the same.

Checks raise ValueError. Of the many variables of OpenTelemetry these are read, and they come behind
everything that is said in Fanlog's own words; the others are for other programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from fanlog.errors import ConfigError

_SIGNALS: Final = ("metrics", "traces")
_OTLP: Final = "OTEL_EXPORTER_OTLP_"


def read_url(value: object) -> str:
    """An address that requests are posted to."""
    wanted = "must be an address of OTLP over HTTP, such as http://collector:4318"
    if not isinstance(value, str):
        raise ValueError(wanted)
    parts = urlsplit(value)
    try:
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(wanted) from error
    if not is_one or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(wanted)
    return value.rstrip("/")


def read_pairs(value: object) -> tuple[tuple[str, str], ...]:
    """Names and values, `NAME=VALUE` with commas between; values may be percent-encoded."""
    wanted = "must be NAME=VALUE with commas between"
    if isinstance(value, list | tuple):
        return tuple(value)
    if not isinstance(value, str):
        raise ValueError(wanted)
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, sign, text = part.partition("=")
        name, text = name.strip(), unquote(text.strip())
        if not sign or not name or not name.isascii() or not (name + text).isprintable():
            raise ValueError(wanted)
        found[name] = text
    return tuple(found.items())


def read_ratio(value: object) -> float | None:
    """A part of all, or off."""
    if value == "off":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1, or off")
    return float(value)


def from_otel(environ: Mapping[str, str]) -> dict[str, object]:
    """The settings that variables of OpenTelemetry say, unchecked.

    Raises:
        ConfigError: They ask for a protocol or a sampler that Fanlog does not have.
    """
    said = {name: text.strip() for name, text in environ.items() if name.startswith("OTEL_")}
    found: dict[str, object] = {}
    if said.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return found
    for name, variable in (
        ("otlp_endpoint", f"{_OTLP}ENDPOINT"),
        *((f"otlp_{one}_url", f"{_OTLP}{one.upper()}_ENDPOINT") for one in _SIGNALS),
        ("otlp_headers", f"{_OTLP}HEADERS"),
        ("otlp_ca", f"{_OTLP}CERTIFICATE"),
    ):
        if said.get(variable):
            found[name] = said[variable]
    if found:
        _check_protocol(said)
    attributes = [said.get("OTEL_RESOURCE_ATTRIBUTES", "")]
    if said.get("OTEL_SERVICE_NAME"):
        attributes.append(f"service.name={said['OTEL_SERVICE_NAME']}")
    if any(attributes):
        found["otlp_attributes"] = ",".join(filter(None, attributes))
    if said.get("OTEL_METRICS_EXPORTER", "otlp") != "otlp":
        found["otlp_interval_s"] = 0
    elif said.get("OTEL_METRIC_EXPORT_INTERVAL"):
        found["otlp_interval_s"] = _number("OTEL_METRIC_EXPORT_INTERVAL", said) / 1_000
    has_endpoint = "otlp_endpoint" in found or "otlp_traces_url" in found
    is_otlp = said.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    # Alone they say nothing of this server: other programs have the same environment.
    if has_endpoint and is_otlp and said.get("OTEL_TRACES_SAMPLER"):
        found["span_ratio"] = _ratio(said)
    return found


def _check_protocol(said: Mapping[str, str]) -> None:
    for name in ("PROTOCOL", *(f"{one.upper()}_PROTOCOL" for one in _SIGNALS)):
        protocol = said.get(_OTLP + name) or "http/protobuf"
        if protocol != "http/protobuf":
            raise ConfigError(
                f"{_OTLP}{name} is {protocol!r}, and Fanlog exports over http/protobuf alone;"
                " collectors take it on port 4318"
            )


def _ratio(said: Mapping[str, str]) -> float | str:
    sampler = said["OTEL_TRACES_SAMPLER"]
    if sampler == "always_off":
        return "off"
    sampler = sampler.removeprefix("parentbased_")
    if sampler == "always_on":
        return 1.0
    if sampler == "always_off":
        # Those that a publisher samples.
        return 0.0
    if sampler == "traceidratio":
        has_ratio = bool(said.get("OTEL_TRACES_SAMPLER_ARG"))
        return _number("OTEL_TRACES_SAMPLER_ARG", said) if has_ratio else 1.0
    raise ConfigError(
        f"OTEL_TRACES_SAMPLER is {said['OTEL_TRACES_SAMPLER']!r}; Fanlog has always_on, always_off"
        " and traceidratio, each also with parentbased_ before it"
    )


def _number(name: str, said: Mapping[str, str]) -> float:
    try:
        return float(said[name])
    except ValueError as error:
        raise ConfigError(f"{name} must be a number, not {said[name]!r}") from error
