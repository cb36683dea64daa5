"""Write the dashboard and the alert rules: `python -m scripts.monitoring`, part of `make docs`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from scripts.monitoring.alert_rules import rules_file
from scripts.monitoring.dashboard import dashboard_file

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
#: Each file by its place under `deploy`.
FILES: Final[dict[str, Callable[[], str]]] = {
    "grafana/fanlog.json": dashboard_file,
    "prometheus/fanlog.rules.yml": rules_file,
}


def main() -> None:
    for name, text in FILES.items():
        path = DEPLOY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text())


if __name__ == "__main__":
    main()
