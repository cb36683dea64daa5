"""The OpenAPI document as a page to be read: one file, nothing fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import orjson

from fanlog.model.json_value import Json

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; }
details { border-top: 1px solid #8884; padding: .35rem 0; }
summary { cursor: pointer; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: #8881; padding: .75rem; overflow-x: auto; border-radius: 4px; }
.verb { display: inline-block; width: 4.5rem; font-weight: 600; }
.said { opacity: .75; margin-left: .75rem; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
"""


def docs_page(document: dict[str, Any]) -> str:
    """The whole page."""
    info = document["info"]
    forms: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            shown = "".join(_operation(verb, path, operation))
            forms.setdefault(operation["tags"][0], []).append(shown)
    sections = "".join(f"<h2>{escape(form)}</h2>{''.join(found)}" for form, found in forms.items())
    schemas = "".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"{_json(schema)}</details>"
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(info['title'])}: the HTTP API</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])}: the HTTP API</h1><p>{escape(info['description'])}</p>"
        f'<p>For programs: <a href="/openapi.json">/openapi.json</a></p>'
        f"{sections}<h2>Schemas</h2>{schemas}</body></html>"
    )


def _operation(verb: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f'<details><summary><code><span class="verb">{verb.upper()}</span>{escape(path)}</code>'
    yield f'<span class="said">{escape(operation["summary"])}</span></summary>'
    queries = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
    if queries:
        names = ", ".join(f"<code>{escape(one['name'])}</code>" for one in queries)
        yield f"<p>In the query: {names}</p>"
    if "requestBody" in operation:
        yield f"<p>Body</p>{_json(operation['requestBody']['content'])}"
    yield "<table>"
    for code, response in operation["responses"].items():
        yield f"<tr><td><code>{code}</code></td><td>{_answer(response)}</td></tr>"
    yield "</table></details>"


def _answer(response: dict[str, Any]) -> str:
    if "$ref" in response:
        return "an error"
    said = escape(response["description"])
    return said + _json(response["content"]) if "content" in response else said


def _json(value: Json) -> str:
    return f"<pre>{escape(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())}</pre>"
