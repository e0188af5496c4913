"""Hands that work on jobs in a race: each does one thing after the other, whatever the answers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.sim import oracle
from tests.sim.race import Race, Sent
from tests.sim.world import Reply

REASON = {"reason": "r"}
STORIES = (
    ("complete",), ("complete",), ("fail",), ("fail", "restart", "complete"), ("fail", "retry", "claim", "complete"),
    ("fail", "restart", "fail"), ("cancel",), ("fail", "restart", "cancel"), ("fail", "retry"), ("note", "complete"),
)  # fmt: skip
"""What may become of a job that somebody holds."""
ALIVE = tuple(story for story in STORIES if story[-1] in ("complete", "retry"))
"""Those after which a job that waits may still come to its turn."""


class Hand:
    """Somebody at work on one job: an agent that holds it, and an owner where only an owner may."""

    def __init__(self, race: Race, job: str, token: str = "agent", fence: int = 0) -> None:
        self.race, self.job, self.token, self.fence = race, job, token, fence

    def take(self) -> Hand:
        """Claim it, before the race."""
        self.fence = self.race.w.claim(self.job, token=self.token)
        return self

    def does(self, steps: Iterable[str], name: str = "") -> None:
        """An actor that takes these steps."""
        steps = list(steps)
        self.race.does(
            name or f"{self.token} at {self.job[-4:]}", lambda: [self.step(step) for step in steps] and None
        )

    def step(self, verb: str) -> Reply:
        """One thing, by whoever may do it."""
        path, under = f"P/jobs/{self.job}/{verb}", {"fence": self.fence}
        match verb:
            case "claim":
                reply = self._call(path, {})
            case "complete" | "release":
                reply = self._call(path, under)
            case "fail":
                reply = self._call(path, {**under, **REASON})
            case "restart":
                reply = self._call(path, {})
            case "note":
                reply = self._call(f"P/jobs/{self.job}/events", {"type": "custom.x"})
            case "retry":
                reply = self._call(path, {"max_retries": 20}, "owner")
            case "stop":
                reply = self._call(path, {**REASON, "then": "publish"}, "owner")
            case _:
                reply = self._call(path, REASON, "owner")
        if reply.status < 300 and reply.body.get("claim"):
            self.fence = reply.body["claim"]["fence"]
        return reply

    def _call(self, path: str, body: Any, token: str = "") -> Reply:
        """Sent again until there is an answer."""
        key = f"{self.job}{self.race.rng.randrange(1 << 40)}"
        for _ in range(20):
            reply = self.race.w.call("POST", path, body, token=token or self.token, key=key)
            if reply.status not in (0, 429, 503):
                return reply
        return Reply(599, {}, None)


def team(
    race: Race, count: int, roles: tuple[str, ...] = ("developer", "reviewer"), name: str = "agent"
) -> list[str]:
    """So many agents, by name."""
    names = [f"{name}{n}" for n in range(count)]
    for each in names:
        race.w.enrol(each, roles)
    return names


def held(race: Race, count: int, **fields: Any) -> list[Hand]:
    """So many jobs, each held by an agent of its own."""
    fields = {"max_retries": 9, **fields}
    return [Hand(race, race.w.job(**fields), name).take() for name in team(race, count)]


def completed(race: Race, token: str = "agent", **fields: Any) -> str:
    """A completed job, and the bus at rest."""
    hand = Hand(race, race.w.job(**fields), token).take()
    assert hand.step("complete").status == 200
    race.w.pump()
    return hand.job


def post(w: Any, path: str, body: Any, **more: Any) -> Reply:
    """A call that is sent again until there is an answer: it has a key."""
    for _ in range(20):
        reply = w.call("POST", path, body, **more)
        if reply.status not in (0, 429, 503):
            return reply
    return Reply(599, {}, None)


def creates(race: Race, name: str, body: dict[str, Any], path: str = "P/jobs", **more: Any) -> None:
    """An actor that creates something and asks until it is answered."""
    race.does(name, lambda: post(race.w, path, body, **more) and None)


def messengers(race: Race, *, rounds: int = 6, chaos: bool | None = None) -> None:
    """Dispatcher and consumers, as the seed will: none, some that behave, some that do not."""
    kind = (
        race.rng.choice(["none", "good", "good", "bad", "bad"])
        if chaos is None
        else "bad"
        if chaos
        else "good"
    )
    if kind == "none":
        return
    race.dispatcher(rounds=rounds, chaos=kind == "bad")
    race.consumer(rounds=rounds, chaos=kind == "bad")
    if race.rng.random() < 0.6:
        race.consumer(rounds=rounds, chaos=kind == "bad", name="consumer2")


def rest(race: Race) -> None:
    """Let the bus come to rest; what was lost is repaired first."""
    if race.lossy:
        race.repair()
    race.settle()


def told(race: Race, job: str) -> Counter[str]:
    """A job's events by type, once the bus is at rest."""
    state = oracle.memory(race.w)
    return Counter(event["type"] for event in state.events[f"default#job#{job}"])


def statuses(race: Race, jobs: Sequence[str]) -> list[str]:
    """How jobs stand."""
    heads = {job.id: job for job in oracle.memory(race.w).jobs}
    return [heads[job].status for job in jobs]


def the_job_of(sent: Iterable[Sent]) -> str:
    """The one job that these calls made."""
    (job,) = {s.reply.body["job"]["id"] for s in sent if s.status in (200, 201)}
    return str(job)


def answers(sent: Iterable[Sent]) -> Counter[Any]:
    """How often each answer was given: a status, or the code of a refusal."""
    return Counter(s.code or s.status for s in sent)
