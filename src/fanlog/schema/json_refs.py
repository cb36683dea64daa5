"""References within one JSON Schema."""

from __future__ import annotations

from fanlog.model.json_value import Json, JsonObject
from fanlog.schema.budget import StepBudget

_STEPS_MAX = 50


def resolve(root: Json, schema: Json, budget: StepBudget | None = None) -> JsonObject:
    """Give the object a schema stands for, its local references followed; `true` is the empty one.

    Keywords beside a reference are kept, and win over those of its target.
    """
    for _ in range(_STEPS_MAX):
        if not isinstance(schema, dict):
            return {"not": {}} if schema is False else {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        target = _target(root, reference, budget)
        if not isinstance(target, dict):
            return schema
        if budget is not None:
            budget.spend(len(target) + len(schema))
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **beside}
    return {}


def _target(root: Json, reference: str, budget: StepBudget | None) -> Json:
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return _find_anchor(root, reference[1:], budget)
    found = root
    for step in reference[2:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~").replace("%25", "%")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and len(key) < 8 and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def _find_anchor(schema: Json, anchor: str, budget: StepBudget | None) -> Json:
    if budget is not None:
        budget.spend()
    if isinstance(schema, dict):
        if schema.get("$anchor") == anchor:
            return schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            found = _find_anchor(part, anchor, budget)
            if found is not None:
                return found
    return None
