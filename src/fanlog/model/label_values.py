"""Values of labels that are numbers."""

from __future__ import annotations

from collections.abc import Mapping

from fanlog.errors import InvalidArgument
from fanlog.model import names


def check_whole(labels: Mapping[str, str], label: str, least: int, most: int, what: str) -> None:
    """Check a label whose value is a whole number, if it is there.

    Raises:
        InvalidArgument: Names the label, its value, `what` it is a number of, and its bounds.
    """
    text = labels.get(label)
    if text is None:
        return
    # No more digits than the most has: a longer number need not be read.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not (is_number and least <= int(text) <= most):
        raise InvalidArgument(
            f"label {label}: {names.shown(text)} is not a whole {what} from {least} to {most}"
        )
