"""Targets of the benchmark: values, and ratios to other servers of the same run."""

from __future__ import annotations

import pytest
from bench.results import Entry, Results
from bench.session import Sample
from bench.workload import Against, Figure, Workload

from bench import before, table, workloads

RATE = Figure(key="rate", label="a rate", unit="/s", against=(Against("emulator", 1.5),))
TIME = Figure(key="time", label="a time", unit="ms", target=10, against=(Against("before", 0.5),))
WORKLOAD = Workload(
    name="some", measure=lambda *_: Sample(figures={}), figures=(RATE, TIME), counted="", count=1
)


@pytest.mark.parametrize(
    ("figure", "value", "others", "is_reached"),
    [
        (RATE, 150, {"emulator": 100}, True),
        (RATE, 149, {"emulator": 100}, False),
        (RATE, 150, {"emulator": None}, None),
        (RATE, 150, {}, None),
        (TIME, 5, {"before": 10}, True),
        (TIME, 6, {"before": 10}, False),
        (TIME, 6, {}, True),
        (TIME, 11, {"before": 100}, False),
    ],
)
def test_every_target_that_can_be_judged_counts(figure, value, others, is_reached):
    assert figure.is_reached(value, others) is is_reached


def report(tmp_path, values: dict[str, dict[str, float]]) -> list[list[str]]:
    """The cells of the table's rows, the head first."""
    results = Results(tmp_path / "results.jsonl", run="1")
    for server, figures in values.items():
        sample = Sample(figures=dict(figures))
        results.add(
            Entry(
                workload=WORKLOAD,
                server=server,
                count=1,
                repeat=0,
                sample=sample,
                load_before=0,
                load_after=0,
            )
        )
    text = table.report(results, [WORKLOAD], list(values), is_judged=True)
    return [line.split("  ") for line in text.split("\nRatio")[0].split("\n")]


def test_the_table_has_a_column_and_a_ratio_for_each_server(tmp_path):
    values = {
        "emulator": {"rate": 100, "time": 4},
        "before": {"rate": 200, "time": 16},
        "Fanlog": {"rate": 300, "time": 9},
    }
    head, _, rate, time = (
        [cell.strip() for cell in row if cell] for row in report(tmp_path, values)
    )
    assert head == [
        "workload", "emulator", "before", "Fanlog", "ratio", "of before", "must reach", "reached",
    ]  # fmt: skip
    assert rate[1:] == ["100/s", "200/s", "300/s", "3.00x", "1.50x", "1.5x emulator", "yes"]
    assert time[1:] == [
        "4.00 ms", "16.00 ms", "9.00 ms", "0.44x", "0.56x", "10.00 ms, 0.5x before", "NO",
    ]  # fmt: skip


def test_a_whole_name_means_itself_and_a_beginning_all_of_its_kind():
    assert [each.name for each in workloads.matching(["single"])] == ["single"]
    assert [each.name for each in workloads.matching(["single-"])] == [
        "single-64",
        "single-64-lean",
    ]


def test_names_of_workloads_and_their_figures_are_used_once():
    names = [workload.name for workload in workloads.WORKLOADS]
    assert len(names) == len(set(names))
    for workload in workloads.WORKLOADS:
        keys = [figure.key for figure in workload.figures]
        assert len(keys) == len(set(keys))


def test_without_history_there_is_no_server_before(tmp_path, monkeypatch):
    monkeypatch.setattr(before, "_ROOT", tmp_path)
    with pytest.raises(before.NoHistory, match="git rev-parse failed"):
        before.unpack(before.COMMIT, tmp_path)
    assert list(tmp_path.iterdir()) == []
