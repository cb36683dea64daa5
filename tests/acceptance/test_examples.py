"""The examples are programs: each is run against a real server, and says what it should."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.served import PATIENCE_S, Served, clean_environ

EXAMPLES = Path(__file__).parents[2] / "examples"

EXPECTED = {
    "1-first-message.py": "received two chairs {'region': 'eu'}\nacknowledged 1\n",
    "2-ordered.py": "anna open deposit withdraw close\nben open deposit withdraw close\n",
    "3-dead-letter.py": (
        "attempt 1 fails\nattempt 2 fails\nattempt 3 fails\ndead letter: not an invoice\n"
        "because of 3 of 3 delivery attempts, the last one nacked\n"
    ),
    "4-exactly-once.py": "pay 10 -> SUCCESS\nonce more -> INVALID_ACK_ID\n",
    "10-own-client.py": ("received two chairs\nreopened 1\nreceived two chairs\nNOT_FOUND\n"),
    "11-once.py": "attempt 1 paid\nattempt 2 duplicate\npayments [(10,)]\n",
    "12-outbox.py": "published 2\nreceived two chairs\nreceived a table\n",
    "13-alerts.py": (
        "began - billing-behind: 2 messages wait for alerted-billing (limit 1)\n"
        "ended - billing-behind is over: 0 messages wait for alerted-billing (limit 1)\n"
    ),
    "9-snapshot.py": (
        "processed ['before']\nprocessed ['after 0', 'after 1', 'after 2']\n"
        "again     ['after 0', 'after 1', 'after 2']\n"
    ),
    "6-routing.py": (
        'routing.eu.orders: {"item": "ten tables", "amount": 4500}\n'
        'routing.us.orders: {"item": "an organ", "amount": 70000}\n'
    ),
    "7-rest.py": "received two chairs {'region': 'eu'}\nacknowledged 1\n",
    "8-grpc-receiver.py": (
        "took two chairs\ntook the end\ndead letter: half a chair\n"
        "because of 1 of 5 delivery attempts, nacked for good: we sell whole chairs only\n"
    ),
}
#: REST without a client library, in other languages: the folder, and the command in it.
OTHER_LANGUAGES = {"node": ["node", "rest.mjs"], "go-rest": ["go", "run", "."]}


def test_every_example_is_expected_to_say_something() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(shared_served: Served, name: str) -> None:
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), f"http://{shared_served.http}"],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        env=clean_environ() | {"PUBSUB_EMULATOR_HOST": shared_served.endpoint},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith(EXPECTED[name])


@pytest.mark.parametrize("folder", sorted(OTHER_LANGUAGES))
def test_rest_in_another_language(shared_served: Served, folder: str) -> None:
    command = OTHER_LANGUAGES[folder]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on this machine")
    result = subprocess.run(
        [*command, f"http://{shared_served.http}"],
        cwd=EXAMPLES / "clients" / folder,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("received two chairs eu\nacknowledged 1\n")
