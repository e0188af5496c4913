"""A stub bus with one job to claim, and a worker that works for it."""

import sys
import threading

from tests.unit.cli_stub import AGENT

from interlock.cli import held, worker
from interlock.cli.client import Client
from interlock.cli.settings import Settings

PYTHON = sys.executable
LIMIT = 20.0


class Board:
    """A stub bus with one job to claim; ``refuse`` maps the end of a path to a problem."""

    def __init__(self, stub, **more):
        self.stub = stub
        self.fence = more.pop("fence", 7)
        self.job = {
            "id": "job_1",
            "summary": "do it",
            "status": "in_progress",
            "fence": self.fence,
            "assignee": "agt_1",
            **more.pop("job", {}),
        }
        self.answer = {"policy": more.pop("policy", None)}
        self.jobs = more.pop("jobs", 1)
        self.refuse = more.pop("refuse", {})
        self.events = []
        self.decisions = []
        self.notices = []
        self.beat = {"job": "job_1", "fence": self.fence, "expires_in": 3}
        self.lease = 1.5
        stub.answer = self.respond

    def respond(self, asked):
        end = asked.path.rpartition("/")[2]
        if end in self.refuse:
            return self.refuse[end]
        if end == "claims":
            if self.jobs:
                self.jobs -= 1
                return 200, {
                    "job": self.job,
                    "claim": {"fence": self.fence, "expires_in": 2, "lease_seconds": self.lease},
                    **{k: v for k, v in self.answer.items() if v},
                }
            return 200, {"job": None, "claim": None, "poll_after_ms": 10, "skipped": {}}
        if end == "events":
            return 200, {"items": self.events, "next_cursor": None}
        if end == "heartbeat":
            return 200, {"claims": [self.beat] if self.beat else [], "notices": self.notices}
        if end == "decisions":
            return 200, {"items": self.decisions, "next_cursor": None}
        if "/decisions/" in asked.path:
            return 200, {"decision": self.decisions[0]}
        if end == "resume":
            self.job["status"] = "in_progress"
            return 200, {
                "job": self.job,
                "claim": {"fence": self.fence, "expires_in": 2, "lease_seconds": self.lease},
            }
        return 200, {"job": self.job, "artifact": {}}

    def writes(self):
        """The writes under the claim, in order, without what they report as used."""
        return [
            (
                one.path.rpartition("/")[2],
                {name: value for name, value in one.body.items() if name != "usage"},
            )
            for one in self.stub.asked
            if "/jobs/job_1/" in one.path and one.method != "GET"
        ]

    def used(self):
        """The seconds that each write under the claim reports."""
        return [
            one.body["usage"]["seconds"]
            for one in self.stub.asked
            if "/jobs/job_1/" in one.path and one.method != "GET" and "usage" in one.body
        ]


def work(url, tmp_path, script, *, stop=None, **more):
    reports = []
    made = held.Work(
        client=Client(Settings(url, "default", agent_token=AGENT), "agent"),
        command=[PYTHON, "-c", script],
        roles=["qa"],
        session="s",
        heartbeat=more.pop("heartbeat", 1),
        logs=tmp_path,
        stop=stop or threading.Event(),
        report=reports.append,
        **{"once": True, "grace": 1.0, **more},
    )
    return worker.run(made), reports
