"""A served bus under fire: Schemathesis makes requests from the published description, right ones and wrong ones, and
Hypothesis calls of MCP's tools and messages that are none.

Every answer must be one that the description promises, and none a defect; what must be refused is refused; and when
it is over the ledger is whole.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from tests.bench.served import Served
from tests.sim.garbage import BODIES, Aims, Sent, calls, judge, messages
from tests.sim.speaker import message
from tests.sim.world import Reply

from interlock.domain.ledger import verify

pytestmark = pytest.mark.e2e

SECONDS = 35
"""Of each run of Schemathesis; there are two."""
ROUNDS = 1_500
"""Messages to MCP."""
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "unsupported_method", "allow_header_conformance", "ignored_auth",
)  # fmt: skip


class Aimed(Served):
    """A running bus that is asked for the objects at which requests are aimed."""

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """A request that must succeed."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.owner_token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimed]:
    with Aimed(tmp_path_factory.mktemp("fuzz")) as served:
        yield served


def aims(bus: Aimed, project: str) -> tuple[dict[str, str], str]:
    """A new project: (its objects, by the names of path parameters, the token of the agent that holds the job)."""
    bus.call("POST", "/v1/projects", {"id": project, "title": "Aim"})
    p = f"/v1/projects/{project}"
    bus.call("POST", f"{p}/roles", {"key": "developer", "label": "Developer"})
    made = bus.call("POST", f"{p}/agents", {"label": "aim", "roles": ["developer"]})
    owner = bus.call("POST", f"{p}/owners", {"label": "aim"})["owner"]
    artifact = {"type": "log", "uri": "s3://x"}
    job = bus.call("POST", f"{p}/jobs", {"summary": "work", "role": "developer", "artifacts": [artifact]})[
        "job"
    ]
    bus.call("POST", f"{p}/jobs/{job['id']}/claim", {}, made["token"])
    agent = made["agent"]
    values = {
        "project": project, "job": job["id"], "artifact": job["artifacts"][0]["id"], "agent": agent["id"],
        "owner": owner["id"], "token": agent["tokens"][0]["id"], "role": "developer",
    }  # fmt: skip
    return values, made["token"]


@pytest.mark.parametrize("who", ["owner", "agent"])
def test_the_description_is_kept(bus: Aimed, who: str, tmp_path: Path) -> None:
    values, of_agent = aims(bus, f"fuzz-{who}")
    lines = ["[parameters]", *(f'"path.{name}" = "{value}"' for name, value in values.items())]
    (tmp_path / "schemathesis.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    token = bus.owner_token if who == "owner" else of_agent
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run", f"{bus.url}/openapi.json",
        "--header", f"Authorization: Bearer {token}", "--phases", "coverage,fuzzing", "--checks", ",".join(CHECKS),
        "--max-examples", "12", "--max-time", str(SECONDS), "--seed", "20261130", "--generation-database", "none",
        "--continue-on-failure", "--no-shrink", "--no-color", "--warnings", "off",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS + 60
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "generated" in done.stdout
    judge_log_and_ledger(bus, values["project"])


def judge_log_and_ledger(bus: Aimed, project: str) -> None:
    """No defect was met, and what was written down is whole."""
    log = bus.log_file.read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in log
    assert " 500 " not in log

    events: list[dict[str, Any]] = []
    after = ""
    while True:
        page = bus.call("GET", f"/v1/projects/{project}/events?limit=1000{after}")
        events += page["items"]
        after = f"&after={page['next_cursor']}"
        if not page["more"]:
            break
    assert len(events) > 20
    assert verify(events) == []


def test_mcp_answers_whatever_it_is_sent(bus: Aimed) -> None:
    values, token = aims(bus, "fuzz-mcp")
    place = urlsplit(bus.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    jobs = [values["job"]]
    known = {"job": jobs, "id": jobs, "target": jobs, "upstream": jobs, "fence": [1], "role": ["developer"]}

    def post(body: bytes, headers: dict[str, str]) -> Reply:
        connection.request("POST", "/mcp", body, {**headers, "authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        text = answer.read()
        shown = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, shown, json.loads(text) if text else None)

    @settings(max_examples=ROUNDS, deadline=None, derandomize=True, database=None)
    @given(calls(Aims(known)) | messages())
    def fire(sent: Sent) -> None:
        judge(post(*sent))

    fire()
    for body in BODIES.values():
        for modern in (False, True):
            judge(post(body, message("ping", modern=modern)[1]))
    connection.close()
    judge_log_and_ledger(bus, values["project"])
