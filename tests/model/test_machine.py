"""Any story of a few jobs, told twice: to a bus and to a small pure model. They must agree at every step.

Processes die in the middle of calls, clocks jump (forwards, and back by ten minutes), the dispatcher sleeps, records
and messages come again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from tests.sim.asking import Asking
from tests.sim.model import Model
from tests.sim.requests import at
from tests.sim.stage import ROLES

from interlock.domain import limits
from interlock.domain.lifecycle import BY_OPERATION, HELD, LEASED, OPEN, permits

pick = st.integers(0, 11)
agents = st.sampled_from(sorted(ROLES))
stale = st.sampled_from([0] * 9 + [-1, 1])
VERBS = {
    "complete": "completed", "fail": "failed", "block": "blocked", "release": "published", "resume": "in_progress",
    "unblock": "unblocked", "cancel": "cancelled",
}  # fmt: skip
faults = (
    st.none()
    | st.none()
    | st.none()
    | st.tuples(st.integers(1, 7), st.sampled_from(["before", "after", "again"]))
)
holders_call = st.tuples(pick, st.sampled_from(["holder"] * 6 + ["ada", "agent"]), stale, faults)
"""Which job, who (mostly its holder), how far off the fence is, what fails."""


class Story(Asking):
    """Rules are calls; each predicts its answer and what it does."""

    @initialize(cancels=st.booleans(), leases=st.tuples(*[st.sampled_from([30, 60, 2_000])] * 3))
    def begin(self, cancels: bool, leases: tuple[int, ...]) -> None:
        self.cancels = cancels
        for lease, who in zip(leases, ROLES, strict=True):
            self.create("developer", lease, 1, "publish", 20, None, None, None, None)
            self.claim(len(self.jobs) - 1, who, None, None, None)
            self.ask(len(self.jobs) - 1, who != "bob", "holder", 0, None, None)
        if cancels:
            self.w.ok("PATCH", "P", {"settings": {"cancel_overdue": True}}, token="owner")

    # ---- jobs

    @rule(
        role=st.sampled_from(["developer", "qa"]),
        lease=st.sampled_from([30, 60, 2_000]),
        budget=st.integers(0, 2),
        on_expire=st.sampled_from(["publish", "publish", "fail", "ask"]),
        priority=st.sampled_from([10, 20, 40]),
        wait=st.sampled_from([None, None, -5, 40, 1_000]),
        due=st.sampled_from([None, None, 50, 1_500]),
        name=st.sampled_from([None, None, "ISSUE"]),
        fault=faults,
    )
    def create(
        self,
        role: str,
        lease: int,
        budget: int,
        on_expire: str,
        priority: int,
        wait: Any,
        due: Any,
        name: Any,
        fault: Any,
    ) -> None:
        if len(self.jobs) >= 5:
            return
        now = self.w.clock.now
        body = {
            "summary": "s", "role": role, "lease_seconds": lease, "max_retries": budget, "on_expire": on_expire,
            "priority": priority, "external_id": name,
            "not_before": None if wait is None else at(self.w, wait),
            "deadline": None if due is None else at(self.w, due),
        }  # fmt: skip
        job = Model(
            "", "pending" if wait and wait > 0 else "published", role, lease, budget, on_expire, priority, now,
            None if wait is None else now + wait * 1_000, None if due is None else now + due * 1_000, name,
        )  # fmt: skip
        reply = self._call("", "POST", "P/jobs", body, fault, key=self._key())
        if self._expect(reply, "already_exists" if self._name_taken(job) else None):
            job = replace(job, id=reply.body["job"]["id"])
            self.jobs.append(job)
            if name:
                self.owner_of_name[name] = job.id

    @rule(
        number=pick,
        old=st.booleans(),
        priority=st.sampled_from([None, 10, 40]),
        role=st.sampled_from([None, None, "qa"]),
        budget=st.sampled_from([None, 2]),
    )
    def edit(self, number: int, old: bool, priority: Any, role: Any, budget: Any) -> None:
        job = self._one(number, *OPEN)
        given = {
            k: v
            for k, v in (("priority", priority), ("role", role), ("max_retries", budget))
            if v is not None
        }
        if not given:
            return
        headers = {"if-match": f'"v{job.version - 1 if old and job.version > 1 else job.version}"'}
        reply = self.w.call("PATCH", f"P/jobs/{job.id}", given, token="owner", headers=headers)
        movable = job.status in OPEN or (job.status == "failed" and "priority" not in given)
        refused = "version_mismatch" if old and job.version > 1 else None if movable else "wrong_state"
        if self._expect(reply, refused):
            after = replace(
                job,
                priority=priority or job.priority,
                role=role or job.role,
                budget=job.budget if budget is None else budget,
            )
            self._set(after.noted() if after != job else job)

    @rule(number=pick, who=st.sampled_from(["agent", "ada", "owner"]), fault=faults)
    def note(self, number: int, who: str, fault: Any) -> None:
        job, key = self._one(number), self._key()
        self._call(job.id, "POST", f"P/jobs/{job.id}/events", {"type": "custom.x"}, fault, token=who, key=key)
        mine = job.renewed(self.w.clock.now) if job.holder == self.ids.get(who) else job
        self._set(mine.noted(key))

    @rule(number=pick, then=st.sampled_from(["publish", "fail", "cancel"]), fault=faults)
    def stop(self, number: int, then: str, fault: Any) -> None:
        job = self._one(number, *HELD)
        key = self._key()
        reply = self._call(
            job.id,
            "POST",
            f"P/jobs/{job.id}/stop",
            {"reason": "r", "then": then},
            fault,
            token="owner",
            key=key,
        )
        if self._expect(reply, None if permits("stop", job.status) else "wrong_state"):
            target = {"publish": "published", "fail": "failed", "cancel": "cancelled"}[then]
            after = job.move("stop", target, self.w.clock.now, key=key)
            self._set(replace(after, stopped=job.fence))

    @rule(number=pick, fault=faults)
    def cancel(self, number: int, fault: Any) -> None:
        job = self._one(number, *HELD, *OPEN)
        key = self._key()
        reply = self._call(
            job.id, "POST", f"P/jobs/{job.id}/cancel", {"reason": "r"}, fault, token="owner", key=key
        )
        if self._expect(reply, None if permits("cancel", job.status) else "wrong_state"):
            after = job.move("cancel", "cancelled", self.w.clock.now, key=key)
            self._set(replace(after, stopped=job.fence if job.status in HELD else job.stopped))

    @rule(number=pick, more=st.sampled_from([None, None, 3]), fault=faults)
    def retry(self, number: int, more: Any, fault: Any) -> None:
        job = self._one(number, "failed")
        key, budget = self._key(), job.budget if more is None else more
        body = {} if more is None else {"max_retries": more}
        reply = self._call(job.id, "POST", f"P/jobs/{job.id}/retry", body, fault, token="owner", key=key)
        refused = "wrong_state" if not permits("retry", job.status) else self._revival_refused(job, budget)
        if self._expect(reply, refused):
            after = job.move("retry", "published", self.w.clock.now, key=key)
            self._set(replace(after, retries=job.retries + 1, budget=budget))
            self._revived(job)

    # ---- claims

    @rule(
        number=pick,
        who=agents,
        session=st.sampled_from([None, "s1", "s2"]),
        beat=st.sampled_from([None, 20]),
        fault=faults,
    )
    def claim(self, number: int, who: str, session: Any, beat: Any, fault: Any) -> None:
        job, now = self._one(number, "published", *LEASED), self.w.clock.now
        key = self._key()
        body = {"session": session, "heartbeat_seconds": beat}
        reply = self._call(job.id, "POST", f"P/jobs/{job.id}/claim", body, fault, token=who, key=key)
        if (
            job.holder == self.ids[who]
            and job.status in HELD
            and session
            and job.session == session
            and not job.lapsed(now)
        ):
            assert reply.status == 200
            assert reply.body["claim"]["fence"] == job.fence
            return
        refused = job.claim_refused(now, paused=self.paused and job.role == "developer", roles=ROLES[who])
        if self._expect(reply, refused):
            after = self._claimed(job, who, session, beat, key)
            assert reply.body["claim"]["fence"] == after.fence
            self._set(after)
        elif refused in ("ended", "not_yet") and job.lapsed(now):
            self._set(job.lapse(now))

    def _claimed(self, job: Model, who: str, session: Any, beat: Any, key: str | None) -> Model:
        now = self.w.clock.now
        if job.lapsed(now):
            job = job.lapse(now)
        lease = beat * 3 if beat else job.lease
        after = job.move("claim", "in_progress", now, key=key).leased(now, lease)
        return replace(
            after, holder=self.ids[who], session=session, claim_lease=lease if lease != job.lease else None
        )

    @rule(who=agents, fault=faults)
    def claim_next(self, who: str, fault: Any) -> None:
        key, now = self._key(), self.w.clock.now
        reply = self._call("", "POST", "P/claims", {}, fault, token=who, key=key)
        roles = [role for role in ROLES[who] if not (self.paused and role == "developer")]
        best = self._best(roles)
        if best is None and roles:
            for job in [job for job in self.jobs if job.role in roles]:
                if job.lapsed(now, limits.LATE):
                    self._set(job.lapse(now))
                elif job.status == "pending" and (job.not_before or 0) <= now:
                    self._set(job.activate(now))
            best = self._best(roles)
        self._expect(reply, None)
        assert (reply.body["job"] or {}).get("id") == (best.id if best else None)
        if best:
            self._set(self._claimed(best, who, None, None, key))

    def _best(self, roles: list[str]) -> Model | None:
        ready = [job for job in self.jobs if job.status == "published" and job.role in roles]
        return min(ready, key=lambda job: (-job.priority, job.published_at, job.id), default=None)

    @rule(call=holders_call)
    def complete(self, call: Any) -> None:
        self._under_a_fence("complete", *call)

    @rule(call=holders_call)
    def fail(self, call: Any) -> None:
        self._under_a_fence("fail", *call)

    @rule(call=holders_call)
    def block(self, call: Any) -> None:
        self._under_a_fence("block", *call)

    @rule(call=holders_call)
    def unblock(self, call: Any) -> None:
        self._under_a_fence("unblock", *call)

    @rule(call=holders_call)
    def resume(self, call: Any) -> None:
        self._under_a_fence("resume", *call)

    @rule(call=holders_call)
    def release(self, call: Any) -> None:
        self._under_a_fence("release", *call)

    @rule(call=holders_call)
    def give_up(self, call: Any) -> None:
        self._under_a_fence("cancel", *call)

    def _under_a_fence(self, verb: str, number: int, who: str, off: int, fault: Any) -> None:
        now = self.w.clock.now
        job = self._one(number, *BY_OPERATION[verb].sources, *HELD)
        holders = {v: k for k, v in self.ids.items()}
        who = holders.get(job.holder or "", "bob") if who == "holder" else who
        fence = max(1, job.fence + off)
        if verb == "cancel" and job.status in OPEN:
            return  # the source's right, not a fence's
        key = self._key()
        body: dict[str, Any] = {"fence": fence}
        if verb in ("fail", "block", "unblock", "cancel"):
            body["reason"] = key
        if verb == "complete":
            body["result"] = {"summary": key}
        reply = self._call(job.id, "POST", f"P/jobs/{job.id}/{verb}", body, fault, token=who, key=key)
        if not self._expect(reply, job.holder_refused(verb, self.ids[who], fence)):
            return
        after = job.move(verb, VERBS[verb], now, key=key, keys=2 if verb in ("complete", "fail") else 1)
        if verb == "resume":
            after = after.leased(now, job.claim_lease or job.lease)
        if verb == "unblock":
            after = after.leased(now, job.lease)
        self._set(after)

    @rule(number=pick, fault=faults)
    def unblock_by_the_owner(self, number: int, fault: Any) -> None:
        job, now = self._one(number, "blocked"), self.w.clock.now
        key = self._key()
        reply = self._call(
            job.id, "POST", f"P/jobs/{job.id}/unblock", {"reason": "r"}, fault, token="owner", key=key
        )
        may = permits("unblock", job.status) and not job.undecided()
        if self._expect(reply, None if may else "wrong_state"):
            self._set(job.move("unblock", "unblocked", now, key=key).leased(now, job.lease))

    @rule(number=pick, who=agents, mine=st.booleans(), fault=faults)
    def restart(self, number: int, who: str, mine: bool, fault: Any) -> None:
        job, now = self._one(number, "failed"), self.w.clock.now
        who = next((name for name, agent in self.ids.items() if mine and agent == job.holder), who)
        key = self._key()
        reply = self._call(job.id, "POST", f"P/jobs/{job.id}/restart", {}, fault, token=who, key=key)
        refused = (
            "not_holder"
            if job.holder != self.ids[who]
            else "wrong_state"
            if not permits("restart", job.status)
            else self._revival_refused(job, job.budget)
        )
        if self._expect(reply, refused):
            after = job.move("restart", "in_progress", now, key=key).leased(now, job.claim_lease or job.lease)
            self._set(replace(after, retries=job.retries + 1))
            self._revived(job)

    @rule(who=agents)
    def heartbeat(self, who: str) -> None:
        reply = self.w.call("POST", "P/heartbeat", {}, token=who)
        mine = [job for job in self.jobs if job.holder == self.ids[who] and job.status in HELD]
        for job in mine:
            self._set(job.renewed(self.w.clock.now, always=True))
        assert {(c["job"], c["fence"]) for c in reply.body["claims"]} == {(job.id, job.fence) for job in mine}

    @rule(number=pick, who=agents)
    def read(self, number: int, who: str) -> None:
        job = self._one(number, *HELD)
        shown = self.w.ok("GET", f"P/jobs/{job.id}", token=who)["job"]
        assert (shown["status"], shown["version"]) == (job.status, job.version)
        if job.holder == self.ids[who]:
            self._set(job.renewed(self.w.clock.now))

    @rule(back=st.integers(1, 12))
    def a_twin_comes_late(self, back: int) -> None:
        """A call that was answered comes again: nothing happens, as long as its head remembers it."""
        if len(self.sent) < back:
            return
        job_id, send, key = self.sent[-back]
        job = next((job for job in self.jobs if job.id == job_id), None)
        if job is not None and key in job.ops:
            reply = send()
            assert reply.status == 200
            assert reply.headers["idempotency-replayed"] == "true"
            self._set(job.renewed(self.w.clock.now) if self._renews(job) else job)

    def _renews(self, job: Model) -> bool:
        """A repeated note by the holder renews, as any call does; read what came of it."""
        return self._head(job).lease_until != job.until


def _run(examples: int, steps: int, *, fixed: bool) -> None:
    run_state_machine_as_test(
        Story,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=fixed,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_story() -> None:
    _run(60, 40, fixed=True)


@pytest.mark.slow
def test_many_stories() -> None:
    _run(1_500, 60, fixed=False)
