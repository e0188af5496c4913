"""A crowd at work: agents and an owner that do what comes to mind, knowing only what they were told."""

from __future__ import annotations

from typing import Any

from tests.sim.race import Race
from tests.sim.requests import at
from tests.sim.world import Reply

from interlock.domain.lifecycle import BY_OPERATION, permits

REASON = {"reason": "r"}


class Crowd:
    """Actors of a race around a few jobs."""

    on_expire = ("publish", "publish", "fail")

    def __init__(self, race: Race, *, agents: int = 3, jobs: int = 3) -> None:
        self.race, self.w, self.rng = race, race.w, race.rng
        self.created = 0
        self.known: dict[str, str] = {}
        self.jobs = [self._create("agent") for _ in range(jobs)]
        self.agents = [f"agent{n}" for n in range(agents)]
        self.ids = {name: self.w.enrol(name, ("developer", "qa")) for name in self.agents}

    def start(self, actions: int = 6) -> None:
        """Everybody begins; so many actions each."""
        for name in self.agents:
            self.race.does(name, lambda name=name: self._agent(name, actions))
        self.race.does("owner", lambda: self._owner(actions))

    def _create(self, token: str) -> str:
        w, rng = self.w, self.rng
        fields: dict[str, Any] = {
            "summary": "s",
            "role": rng.choice(["developer", "developer", "qa"]),
            "lease_seconds": rng.choice([30, 60, 3_600]),
            "max_retries": rng.choice([0, 1, 3]),
            "on_expire": rng.choice(self.on_expire),
            "priority": rng.choice([10, 20, 40]),
            "external_id": rng.choice([None, None, "ISSUE-1", "ISSUE-2"]),
            "not_before": rng.choice([None, None, at(w, 20)]),
            "deadline": rng.choice([None, at(w, 45), at(w, 2_000)]),
            "requires": rng.choice([[], [], ["log"]]),
        }
        self.created += 1
        reply = self._call("POST", "P/jobs", fields, token=token, key=f"create{self.created}")
        if reply.status == 409:
            return str(reply.body["job"])
        return str(reply.body["job"]["id"])

    # ---- agents

    def _agent(self, name: str, actions: int) -> None:
        held: dict[str, int] = {}
        for number in range(actions):
            work = self._on_a_claim if held and self.rng.random() < 0.75 else self._look_for_work
            work(name, held, number)

    def _look_for_work(self, name: str, held: dict[str, int], number: int) -> None:
        rng, body = self.rng, {"session": f"{name}-{number}"} if self.rng.random() < 0.3 else {}
        key = f"{name}-{rng.randrange(3)}" if rng.random() < 0.3 else None
        job = rng.choice(self.jobs)
        what = rng.choice(
            ["next", "next", "next", "claim", "claim", "claim", "cancel", "create", "create", "read", "edit"]
        )
        if what == "next":
            self._learn(held, self._call("POST", "P/claims", body, token=name, key=key))
        elif what == "claim":
            self._learn(held, self._repeated("POST", f"P/jobs/{job}/claim", body, token=name, key=key))
        elif what == "create":
            self.jobs.append(self._create(name))
        elif what == "edit":
            headers = {"if-match": f'"v{rng.choice([1, 1, 2, 4])}"'}
            self._call("PATCH", f"P/jobs/{job}", {"summary": f"s{number}"}, token="agent", headers=headers)
        elif what == "cancel":
            self._call("POST", f"P/jobs/{job}/cancel", REASON, token="agent")
        else:
            about = ("", "/events", "/explain")
            paths = [*(f"P/jobs/{job}{part}" for part in about), "P/jobs", "P/me", "P/events", "P/stats"]
            self._call("GET", rng.choice(paths), token=name)

    def _on_a_claim(self, name: str, held: dict[str, int], number: int) -> None:
        rng = self.rng
        job = rng.choice(sorted(held))
        under = {"fence": held[job]}
        choices: list[tuple[str, dict[str, Any]]] = [
            ("complete", under),
            (
                "complete",
                {**under, "result": {"data": 1, "artifacts": [{"type": "log", "uri": f"f:{number}"}]}},
            ),
            ("fail", {**under, **REASON}),
            ("block", {**under, **REASON}),
            ("unblock", {**under, **REASON}),
            ("resume", under),
            ("release", under),
            ("restart", {}),
            ("artifacts", {**under, "type": "log", "uri": f"f:{name}{number}"}),
            ("events", {"type": "custom.note", "data": {"n": "x" * rng.choice([1, 400])}}),
            ("heartbeat", {"jobs": [{"id": job, **under}]}),
        ]
        if rng.random() < 0.6:  # something that its status allows, as far as it knows
            choices = [
                c for c in choices if c[0] not in BY_OPERATION or permits(c[0], self.known.get(job, ""))
            ] or choices
        verb, body = rng.choice(choices)
        if verb == "heartbeat":
            self._call("POST", "P/heartbeat", body, token=name)
        else:
            key = f"{verb}{number}" if rng.random() < 0.5 else None
            self._learn(held, self._repeated("POST", f"P/jobs/{job}/{verb}", body, token=name, key=key))
        if rng.random() < 0.1:
            del held[job]  # it forgets, as after a restart of the agent

    def _repeated(self, *call: Any, **more: Any) -> Reply:
        """A call, sometimes sent again although it was answered."""
        reply = self._call(*call, **more)
        return self._call(*call, **more) if more.get("key") and self.rng.random() < 0.3 else reply

    def _call(self, *call: Any, **more: Any) -> Reply:
        """A call with a key is sent again until there is an answer; one without is given up."""
        for _ in range(20):
            reply = self.w.call(*call, **more)
            if reply.status not in (0, 429, 503):
                return reply
            if not more.get("key"):
                break
        return Reply(599, {}, None)

    def _learn(self, held: dict[str, int], reply: Reply) -> None:
        if reply.status < 300 and isinstance(reply.body.get("job"), dict):
            self.known[reply.body["job"]["id"]] = reply.body["job"]["status"]
        if reply.status < 300 and reply.body.get("claim"):
            held[reply.body["job"]["id"]] = reply.body["claim"]["fence"]

    # ---- the owner

    def _owner(self, actions: int) -> None:
        rng = self.rng
        for number in range(actions):
            job = rng.choice(self.jobs)
            verb, body = rng.choice(
                [
                    ("stop", {**REASON, "then": rng.choice(["publish", "fail", "cancel"])}),
                    ("unblock", REASON),
                    ("unblock", REASON),
                    ("retry", {"max_retries": 5}),
                    ("retry", {"max_retries": 5}),
                    ("retry", {}),
                    ("artifacts", {"type": "log", "uri": f"f:o{number}"}),
                    ("pause", {"role": "qa"}),
                    ("resume", {"role": "qa"}),
                    ("agent", {"roles": rng.choice([["developer"], ["developer", "qa"]])}),
                ]
            )
            if verb in ("pause", "resume"):
                self._call("POST", f"P/{verb}", body, token="owner")
            elif verb == "agent":
                agent = self.ids[rng.choice(self.agents)]
                self._call("PATCH", f"P/agents/{agent}", body, token="owner")
            else:
                self._repeated("POST", f"P/jobs/{job}/{verb}", body, token="owner", key=f"o{number}")
