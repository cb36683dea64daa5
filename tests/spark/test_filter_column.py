"""What a filter is to Spark: corners of JSON, what is pushed down, how often data is parsed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from fanlog.errors import FailedPrecondition
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
    Glob,
    Has,
    In,
    Not,
    Op,
    Or,
    Payload,
    Prefix,
)
from fanlog.routing.filter_compile import compile_filter
from fanlog.spark import SETTINGS, Columns, column
from filter_oracle import evaluate
from spark import table

#: One worker has them all: a second session would cost as much as the tests.
pytestmark = pytest.mark.xdist_group("spark")

#: Values beside which types could be mistaken for one another.
VALUES = (
    '"5"', "5", "5.0", "5e0", "50e-1", "true", "false", '"true"', '"false"', "1", "0", "1.0", "-0",
    "-0.0", "-0e0", '"1"', '"0"', "null", '"null"', "{}", "[]", '{"b":5}', "[5]", '""', '" 5"',
    '"5e0"', '"NaN"', '"Infinity"', "9007199254740993", "9223372036854775807",
    "-9223372036854775809",
    "18446744073709551615", "9" * 38, "9" * 39, "9" * 308, "0." + "3" * 50, "0.1", "1e-400",
    "1.7976931348623157e308", "2.4703282292062327208e-324", '"\\u0000"', '"\\ud83d\\ude00"',
    '"\\uffff"', '"a\\/b"', '"us-east"', '"us-\\n-east"',
)  # fmt: skip
#: Documents that one parser or another takes for JSON, or for something else.
DOCUMENTS = (
    b"", b" ", b"5", b'"a"', b"null", b"[5]", b'{"a":5} ', b' \t\r\n{"a":5}', b'{"a":5}x',
    b'{"a":5} {"a":6}', b'{"a":5}]', b'{"a":5},', b'{"a":5},5', b'{"a":5}],"x"]', b'{"a":5}//',
    b'{"a":5}\0', b"5,6", b'{"a":5', b'{"a":5}}', b'"a', b'\xef\xbb\xbf{"a":5}', b'{"a":\x0c5}',
    b'{"a":5,"a":6}', b'{"a":6,"a":5}', b'{"a":5,"a":null}', b'{"a":{"b":5},"a":{"c":5}}',
    b'{"a":NaN}', b'{"a":5,"b":Infinity}', b'{"a":+5}', b'{"a":05}', b'{"a":5.}', b'{"a":.5}',
    b'{"a":5,"b":1e999}', b'{"a":5,"b":[{"c":-1E+0999}]}', b'{"a":5,"b":1e999 }',
    b'{"a":5,"b":"1e999"}', b'{"a":5,"b":"x:1e999,"}', b'{"a":5,"b":"\\":1e999,"}',
    b'{"a":5,"b":"\\\\","c":1e999}', b'{"a":5,"b":"\\\\\\",1e999,"}', b'{"a":5,"b":1e308}',
    b'{"a":5,"b":1' + b"0" * 308 + b"}", b'{"a":5,"b":1' + b"0" * 309 + b"}",
    b'{"a":5,"b":1.7976931348623159e308}', b'{"a":5,"b":0.' + b"0" * 500 + b"1e800}",
    b'{"a":5,"b":"' + b"9" * 400 + b'"}', b'{"a":5,"b":1e-999}', b'{"a":5,"b":0e999}',
    b'{"a":5,"b":"\xff"}', b'{"a":5,"\xff":1}', b'{"a":5}\xff', b'{"a":5,"b":"\xed\xa0\x80"}',
    b'{"a":5,"b":"\xc0\x80"}', b'{"a":5,"b":"\\ud800"}', b'{"a":5,"\\udc00":1}',
    b'{"a":5,"b":"\n"}',
    b'{"a":5,"b":"\\x"}', b"{'a':5}", b"{a:5}", b'{"a":5,}', b'{"a":[5,]}', b'/**/{"a":5}',
    b'#\n{"a":5}', b'{"a":True}', '{"a":5}'.encode("utf-16"), b'\0{"a":5}',
)  # fmt: skip
NAMES = (
    "",
    "a.b",
    "a'b",
    'a"b',
    "a'b\"c",
    "a]b",
    "a[0]",
    "$",
    "\\",
    "a b",
    "0",
    "\n",
    "\0",
    "é",
    "😀",
    "*",
)

A = Payload(("a",))


def same_answers(spark: SparkSession, folder: Path, trees: list, candidates: list[Candidate]):
    """Hold Spark to what closure and oracle say, in a projection and as a filter."""
    frame = table.messages(spark, folder / "messages.parquet", candidates)
    expected = [[evaluate(tree, candidate) for tree in trees] for candidate in candidates]
    compiled = [compile_filter(tree) for tree in trees]
    assert expected == [[test(candidate) for test in compiled] for candidate in candidates]
    conditions = [column(tree).alias(str(index)) for index, tree in enumerate(trees)]
    wrong = [
        (trees[index], candidates[number], answer)
        for number, *answers in frame.select("number", *conditions).collect()
        for index, answer in enumerate(answers)
        if answer is not expected[number][index]
    ]
    assert wrong == []
    for index, tree in enumerate(trees[:3]):
        passed = {number for (number,) in frame.where(column(tree)).select("number").collect()}
        assert passed == {number for number, row in enumerate(expected) if row[index]}, tree


def test_nothing_is_converted_between_types(spark, tmp_path):
    candidates = [Candidate({}, f'{{"a":{value}}}'.encode()) for value in VALUES]
    values = (
        "5",
        5,
        True,
        False,
        1,
        0,
        "true",
        "1",
        "",
        -0.0,
        2**53,
        2**63,
        1e308,
        0.1,
        "😀",
        "\uffff",
    )
    trees = [
        Has(A),
        Not(Has(A)),
        *(Compare(A, Op.EQ, value) for value in values),
        *(Compare(A, op, value) for op in (Op.LT, Op.GE) for value in values),
        In(A, ("5", 1, True)),
        In(A, tuple(range(20))),
        In(A, (*map(str, range(20)), False)),
        Prefix(A, ""),
        Prefix(A, "us-"),
        Glob(A, ("us-", "east")),
        Glob(A, ("", "-", "e", "t")),
    ]
    same_answers(spark, tmp_path, trees, candidates)


def test_what_is_json_is_the_same_everywhere(spark, tmp_path):
    candidates = [Candidate({"k": "v"}, data) for data in DOCUMENTS]
    five, has_k = Compare(A, Op.EQ, 5), Compare(Attribute("k"), Op.EQ, "v")
    trees = [
        five,
        Not(five),
        And((has_k, Not(five))),
        Or((five, Not(has_k))),
        And((Or((five, has_k)), Or((Not(five), has_k)))),
        Or((And((five, has_k)), And((Not(five), Not(has_k))))),
        Has(Payload(("b",))),
        Has(Payload((0,))),
        Has(Payload(("a", "b"))),
        Compare(A, Op.NE, 6),
    ]
    same_answers(spark, tmp_path, trees, candidates)


def test_names_are_any_text_and_indexes_any_number(spark, tmp_path):
    objects = [{name: {name: 5}} for name in NAMES] + [dict.fromkeys(NAMES, 5), [5, [5]], {}]
    candidates = [Candidate({}, json.dumps(value).encode()) for value in objects]
    paths: list[tuple[str | int, ...]] = [(name,) for name in NAMES]
    paths += [(name, name) for name in NAMES]
    paths += [(0,), (1, 0), (2**31 - 1,), (2**31,), (2**70,), ("a'b\"c", 0)]
    same_answers(spark, tmp_path, [Compare(Payload(path), Op.EQ, 5) for path in paths], candidates)


def test_null_is_false_and_stays_so(spark):
    frame = spark.sql(
        "select 't' as topic, cast(null as string) as ordering_key,"
        " cast(null as map<string, string>) as attributes, cast(null as binary) as data"
    )
    absent = [Compare(Attribute("k"), Op.EQ, "v"), Has(Envelope.ORDERING_KEY), Compare(A, Op.EQ, 5)]
    conditions = [column(tree) for tree in absent] + [column(Not(tree)) for tree in absent]
    assert list(frame.select(*conditions).collect()[0]) == [False] * 3 + [True] * 3


@pytest.mark.parametrize("is_beyond", [False, True])
def test_beyond_the_parsers_limits_data_is_not_json(spark, tmp_path, is_beyond):
    """What Spark's parser cannot be told to take. The live side takes more: orjson has others."""
    documents = [
        b'{"a":5,"b":' + b"[" * (998 + is_beyond) + b"]" * (998 + is_beyond) + b"}",
        b'{"a":5,"b":-0.' + b"1" * (999 + 2 * is_beyond) + b"}",
        b'{"a":5,"' + b"n" * (50_000 + is_beyond) + b'":1}',
    ]
    candidates = [Candidate({}, data) for data in documents]
    assert all(compile_filter(Has(A))(candidate) for candidate in candidates)
    frame = table.messages(spark, tmp_path / "messages.parquet", candidates)
    assert frame.where(column(Has(A))).count() == (0 if is_beyond else 3)


def test_heavy_data_is_not_json(spark, tmp_path):
    """At the bound, and one list beyond it; a long text without either is light."""
    documents = [
        b'{"a":5,"b":[0' + b",[]" * 199_998 + b"]}",
        b'{"a":5,"b":[0' + b",[]" * 199_999 + b"]}",
        b'{"a":5,"b":"' + b"x" * 1_000_000 + b'"}',
    ]
    candidates = [Candidate({}, data) for data in documents]
    assert [compile_filter(Has(A))(candidate) for candidate in candidates] == [True, False, True]
    frame = table.messages(spark, tmp_path / "messages.parquet", candidates)
    assert frame.where(column(Has(A))).count() == 2
    assert frame.where(column(Not(Has(A)))).count() == 1


def test_columns_may_be_called_otherwise(spark):
    frame = spark.sql("select named_struct('t', 'projects/p/topics/orders') as m")
    condition = column(Compare(Envelope.TOPIC, Op.EQ, "orders"), Columns(topic="m.t"))
    assert frame.where(condition).count() == 1


def test_a_session_without_the_settings_is_refused(spark):
    (name,) = SETTINGS
    spark.conf.set(name, "false")
    try:
        column(Has(Attribute("k")))
        with pytest.raises(FailedPrecondition, match=f"{name}=true"):
            column(Has(A))
    finally:
        spark.conf.set(name, "true")


def plan(frame: DataFrame, mode: str) -> str:
    jvm = frame.sparkSession._jvm
    return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), mode))


def test_data_is_parsed_once_a_row(spark, tmp_path):
    frame = table.messages(spark, tmp_path / "messages.parquet", [Candidate({})])
    tree = And(
        (
            Compare(A, Op.GE, 0),
            Compare(Payload(("b",)), Op.EQ, "USD"),
            Not(Compare(Payload(("c",)), Op.EQ, True)),
        )
    )
    for shown in (frame.where(column(tree)), frame.select(column(tree))):
        assert len(re.findall(r"\(VariantVal\).*parseJson\(", plan(shown, "codegen"))) == 1


def test_filters_without_payload_read_no_data_and_push_times_down(spark, tmp_path):
    frame = table.messages(spark, tmp_path / "messages.parquet", [Candidate({})])
    tree = And(
        (
            Compare(Envelope.PUBLISH_TIME, Op.GE, 1_700_000_000_000_001),
            Compare(Envelope.MESSAGE_ID, Op.EQ, "7"),
            Compare(Attribute("k"), Op.EQ, "v"),
        )
    )
    shown = plan(frame.where(column(tree)).select("number"), "formatted")
    pushed = re.search(r"PushedFilters: (.*)", shown)
    assert pushed is not None
    assert "GreaterThanOrEqual(publish_time,2023-11-14 22:13:20.000001)" in pushed[1]
    assert "EqualTo(message_id,7)" in pushed[1]
    assert "data:binary" not in shown
