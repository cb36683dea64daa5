"""The text format of Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator

from prometheus_client.parser import text_string_to_metric_families

from fanlog.broker.histogram import Histogram
from fanlog.server.metrics.family import Family, Labels, Reading
from fanlog.server.metrics.text import write_text


async def written(*readings: Reading) -> str:
    async def read() -> AsyncIterator[Reading]:
        for reading in readings:
            yield reading

    return b"".join([piece async for piece in write_text(read())]).decode()


async def test_one_of_each_kind():
    histogram = Histogram((0.5, 1.0))
    histogram.observe(0.25)
    histogram.observe(7, 2)
    text = await written(
        Reading(Family("a", "counter", "Count."), [()], [3]),
        Reading(Family("b", "gauge", "Gauge.", ("x", "y")), [("1", "2")], [0.5]),
        Reading(Family("c_seconds", "histogram", "Times."), [()], [histogram]),
    )
    assert text.splitlines() == [
        "# HELP a_total Count.",
        "# TYPE a_total counter",
        "a_total 3.0",
        "# HELP b Gauge.",
        "# TYPE b gauge",
        'b{x="1",y="2"} 0.5',
        "# HELP c_seconds Times.",
        "# TYPE c_seconds histogram",
        'c_seconds_bucket{le="0.5"} 1.0',
        'c_seconds_bucket{le="1.0"} 1.0',
        'c_seconds_bucket{le="+Inf"} 3.0',
        "c_seconds_sum 14.25",
        "c_seconds_count 3.0",
    ]


async def test_a_histogram_with_labels():
    histogram = Histogram((1.0,))
    histogram.observe(2)
    text = await written(Reading(Family("h", "histogram", "H.", ("x",)), [("v",)], [histogram]))
    assert 'h_bucket{le="+Inf",x="v"} 1.0' in text
    assert 'h_sum{x="v"} 2.0' in text


async def test_every_label_and_help_is_read_back():
    nasty = ['a"b', "back\\slash", "line\nbreak", "ünï", '\\n"', "{},="]
    labels: list[Labels] = [(one,) for one in nasty]
    text = await written(
        Reading(Family("a", "gauge", 'Says "no\\thing"\nmore.', ("x",)), labels, range(len(nasty)))
    )
    [family] = text_string_to_metric_families(text)
    assert [(sample.labels["x"], sample.value) for sample in family.samples] == [
        (one, float(n)) for n, one in enumerate(nasty)
    ]
    assert family.documentation == 'Says "no\\thing"\nmore.'


async def test_long_columns_come_whole():
    labels: list[Labels] = [(str(n),) for n in range(2_345)]
    text = await written(Reading(Family("a", "gauge", "A.", ("x",)), labels, range(2_345)))
    [family] = text_string_to_metric_families(text)
    assert [sample.value for sample in family.samples] == list(range(2_345))
