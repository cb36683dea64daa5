"""The curl lines of the guide: each works, and there is one for every route."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fanlog.server.http_api import rest_routes
from fanlog.server.rest.route import Router

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "rest.md"
SCRIPT = "\n".join(re.findall(r"```bash\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))
ADDRESS = "FANLOG=http://127.0.0.1:8086"
#: Every curl of the script fails the script; what it says is kept apart.
FAILING = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n'


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_every_line_works(server):
    assert ADDRESS in SCRIPT
    script = SCRIPT.replace(ADDRESS, f"FANLOG={server.http('')}")
    result = subprocess.run(
        ["bash", "-exuo", "pipefail", "-c", FAILING + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout[-500:]}\n{result.stderr[-1500:]}"


def test_every_route_has_a_line():
    routes = [route for form in rest_routes().values() for route in form]
    router = Router(routes)
    shown = set()
    for line in SCRIPT.replace("$PROJECT", "$FANLOG/v1/projects/shop").splitlines():
        called = re.search(r"curl .*?\$FANLOG(/[^\s?\"]*)", line)
        if called is None:
            continue
        given = re.search(r"-X (\w+)", line)
        method = given[1] if given else "POST" if "--json" in line else "GET"
        route, _ = router.find(method, called[1].encode())
        shown.add((route.http, route.path))
    assert shown == {(route.http, route.path) for route in routes}
