"""The type of JSON values, as `json` and `orjson` read and write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
JsonObject = dict[str, Json]
