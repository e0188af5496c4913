"""The part of the model test's stories that asks, answers and withdraws decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.sim.model import Model
from tests.sim.stage import Stage

from interlock.domain.lifecycle import HELD

pick = st.integers(0, 11)
faults = st.none() | st.tuples(st.integers(1, 7), st.sampled_from(["before", "after", "again"]))


class Asking(Stage):
    """Rules about decisions; ``decisions`` are all that were asked: (job, decision)."""

    def __init__(self) -> None:
        super().__init__()
        self.decisions: list[tuple[str, str]] = []

    def _set(self, after: Model) -> None:
        super()._set(after)
        for name, _ in after.asked:
            if (after.id, name) not in self.decisions:
                self.decisions.append((after.id, name))

    @rule(
        number=pick,
        waits=st.booleans(),
        who=st.sampled_from(["holder"] * 4 + ["ada"]),
        off=st.sampled_from([0, 0, 0, 1]),
        expires=st.sampled_from([None, None, 30, 1_000]),
        fault=faults,
    )
    def ask(self, number: int, waits: bool, who: str, off: int, expires: Any, fault: Any) -> None:
        job, now = self._one(number, *HELD), self.w.clock.now
        who = (
            next((name for name, agent in self.ids.items() if agent == job.holder), "bob")
            if who == "holder"
            else who
        )
        fence, key = max(1, job.fence + off), self._key()
        body = {"fence": fence, "kind": "approval", "prompt": key, "wait": waits, "expires_in": expires}
        reply = self._call(job.id, "POST", f"P/jobs/{job.id}/decisions", body, fault, token=who, key=key)
        mine = job.holder == self.ids[who]
        refused = job.holder_refused("ask", self.ids[who], fence)
        if refused is None and waits and job.undecided():
            refused = "wrong_state"
        if refused is None and len(job.asked) >= 10:
            refused = "limit_reached"
        if not self._expect(reply, refused):
            self._set(job.renewed(now) if mine else job)
            return
        made = reply.body["decision"]["id"]
        before = job.renewed(now)
        after = before.move("ask", "blocked", now, key=key) if waits else before.noted(key)
        until = None if expires is None else now + expires * 1_000
        self._set(replace(after, asked=(*job.asked, (made, until)), waits=made if waits else after.waits))

    @rule(
        back=st.integers(1, 6),
        verdict=st.sampled_from(["approve", "approve", "reject", "publish"]),
        fault=faults,
    )
    def answer(self, back: int, verdict: str, fault: Any) -> None:
        self._close("answer", back, fault, {"answer": verdict})

    @rule(back=st.integers(1, 6), verdict=st.sampled_from(["publish", "fail", "cancel"]), fault=faults)
    def decide_about_a_lapse(self, back: int, verdict: str, fault: Any) -> None:
        self._close("answer", back, fault, {"answer": verdict}, of_lapse=True)

    @rule(back=st.integers(1, 6), fault=faults)
    def withdraw(self, back: int, fault: Any) -> None:
        self._close("withdraw", back, fault, {})

    def _close(
        self, verb: str, back: int, fault: Any, body: dict[str, Any], *, of_lapse: bool = False
    ) -> None:
        still_open = [
            (job.id, name) for job in self.jobs for name, _ in job.asked if not of_lapse or job.holder is None
        ]
        names = still_open if still_open and back < 5 else self.decisions
        if not names:
            return
        job_id, name = names[-1 - back % len(names)]
        job = next(job for job in self.jobs if job.id == job_id)
        key, now = self._key(), self.w.clock.now
        reply = self._call(job.id, "POST", f"P/decisions/{name}/{verb}", body, fault, token="owner", key=key)
        fits = verb == "withdraw" or (body["answer"] in ("publish", "fail", "cancel")) is (job.holder is None)
        refused = "decision_closed" if name not in dict(job.asked) else None if fits else "invalid"
        if self._expect(reply, refused):
            self._set(self._closed(job, verb, name, body.get("answer"), now, key))

    def _closed(self, job: Model, verb: str, name: str, said: Any, now: int, key: str) -> Model:
        freed = job.without(name)
        if not job.blocked_by(name):
            return freed.noted(key)
        if said in ("fail", "cancel"):
            after = freed.noted().move("stop", {"fail": "failed", "cancel": "cancelled"}[said], now, key=key)
            return replace(after, stopped=job.fence)
        if job.holder is None:
            return freed.move(verb, "published", now, key=key)
        return freed.move(verb, "unblocked", now, key=key).leased(now, job.lease)
