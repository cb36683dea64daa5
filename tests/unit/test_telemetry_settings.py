"""Settings of OTLP, in our own words and in those of OpenTelemetry."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanlog.config import resolve
from fanlog.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://collector:4318", "http://collector:4318"),
        ("https://otlp.example/base/", "https://otlp.example/base"),
        ("http://[::1]:4318", "http://[::1]:4318"),
    ],
)
def test_endpoints(url, kept):
    config = resolve({"otlp_endpoint": url}, {})
    assert config.otlp_endpoint == kept
    assert config.metrics_url == f"{kept}/v1/metrics"


@pytest.mark.parametrize(
    "url", ["collector:4318", "grpc://c:1", "http://", "http://c:0", "http://c:x", "http://a@c/", 7]
)
def test_what_is_no_endpoint(url):
    with pytest.raises(ConfigError, match="otlp-endpoint must be an address"):
        resolve({"otlp_endpoint": url}, {})


def test_nothing_is_sent_unless_asked_for():
    assert resolve({}, {}).metrics_url == ""
    environ = {"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
    assert resolve({}, environ).metrics_url == ""


def test_the_variables_of_opentelemetry():
    config = resolve(
        {},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:4318/v1/traces",
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=s%20ecret, team=ops",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": "/etc/ca.pem",
            "OTEL_RESOURCE_ATTRIBUTES": "zone=a,service.name=other",
            "OTEL_SERVICE_NAME": "billing",
            "OTEL_METRIC_EXPORT_INTERVAL": "15000",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_SOMETHING_ELSE": "kept for others",
        },
    )
    assert config.metrics_url == "http://collector:4318/v1/metrics"
    assert config.otlp_traces_url == "http://traces:4318/v1/traces"
    assert config.otlp_headers == (("api-key", "s ecret"), ("team", "ops"))
    assert config.otlp_ca == Path("/etc/ca.pem")
    assert dict(config.otlp_attributes) == {"zone": "a", "service.name": "billing"}
    assert config.otlp_interval_s == 15


def test_our_own_words_come_first():
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:4318",
        "OTEL_METRIC_EXPORT_INTERVAL": "15000",
        "FANLOG_OTLP_INTERVAL_S": "20",
    }
    config = resolve({"otlp_endpoint": "http://mine:4318"}, environ)
    assert config.metrics_url == "http://mine:4318/v1/metrics"
    assert config.otlp_interval_s == 20


def test_a_whole_address_for_metrics():
    environ = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://prometheus/api/v1/otlp/v1/metrics"}
    assert resolve({}, environ).metrics_url == "http://prometheus/api/v1/otlp/v1/metrics"


@pytest.mark.parametrize(
    "environ", [{"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}]
)
def test_metrics_that_are_turned_off(environ):
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", **environ}
    assert resolve({}, environ).metrics_url == ""


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "over http/protobuf alone"),
        ({"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"}, "over http/protobuf alone"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "soon"}, "must be a number"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "10"}, "at least 1 seconds"),
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "Fanlog has always_on"),
    ],
)
def test_what_is_refused(environ, sentence):
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", **environ}
    with pytest.raises(ConfigError, match=sentence):
        resolve({}, environ)


@pytest.mark.parametrize(
    ("environ", "ratio"),
    [
        ({}, None),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, None),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "always_on", "OTEL_TRACES_EXPORTER": "none"}, None),
        ({"OTEL_TRACES_SAMPLER": "always_on", "FANLOG_SPAN_RATIO": "0.5"}, 0.5),
        ({"OTEL_TRACES_SAMPLER": "always_on", "FANLOG_SPAN_RATIO": "off"}, None),
    ],
)
def test_the_part_that_is_traced(environ, ratio):
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", **environ}
    config = resolve({}, environ)
    assert config.span_ratio == ratio
    assert config.traces_url == "http://collector:4318/v1/traces"


def test_a_sampler_alone_traces_nothing():
    assert resolve({}, {"OTEL_TRACES_SAMPLER": "always_on"}).span_ratio is None


def test_what_is_traced_must_have_somewhere_to_go():
    with pytest.raises(ConfigError, match="nothing says where spans are sent"):
        resolve({"span_ratio": 0.5}, {})


@pytest.mark.parametrize("ratio", [-0.1, 1.1, True, "half"])
def test_what_is_no_part(ratio):
    with pytest.raises(ConfigError, match="must be a number from 0 to 1"):
        resolve({"span_ratio": ratio, "otlp_endpoint": "http://c:1"}, {})


def test_another_protocol_does_not_matter_where_nothing_is_sent():
    assert resolve({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}).metrics_url == ""


def test_headers_are_in_no_text():
    config = resolve({"otlp_headers": "api-key=hidden"}, {})
    assert "hidden" not in repr(config)
    with pytest.raises(ConfigError) as refused:
        resolve({"otlp_headers": "hidden"}, {})
    assert "'hidden'" not in str(refused.value)
