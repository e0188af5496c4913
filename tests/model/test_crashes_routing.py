"""The crash matrix of routing: the consumer fails before and after each of its store calls, and the message comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.model.test_crashes import Case, judge, recover
from tests.sim import oracle, requests
from tests.sim.services import serve_changes, serve_messages
from tests.sim.world import World

from interlock.errors import InterlockError

OK = {"field": "data.ok", "op": "eq", "value": True}
ARTIFACT = {"type": "spec", "uri": "s3://x"}


def ended(w: World, *verbs: str, dispatched: bool = True, **fields: Any) -> str:
    """A job with rules that was claimed and ended, time and again."""
    rules = fields.pop("routing", [rule(on=on) for on in ("failed", "completed", "completed")])
    job = w.job(routing=rules, max_retries=9, **fields)
    for number, verb in enumerate(verbs):
        if number:
            w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
        body = {"reason": "r"} if verb == "fail" else {"result": {"summary": "s", "data": {"ok": True}}}
        w.ok("POST", f"P/jobs/{job}/{verb}", {"fence": w.claim(job), **body})
    if dispatched:
        w.dispatch()
    return job


def rule(**more: Any) -> dict[str, Any]:
    return {"role": "qa", "summary": "follow", **more}


def without_a_role(w: World) -> str:
    job = ended(w, "complete", routing=[rule(role="ops"), rule()])
    w.ok("DELETE", "P/roles/ops", token="owner")
    return job


def retried_meanwhile(w: World) -> str:
    job = ended(w, "fail")
    w.ok("POST", f"P/jobs/{job}/restart", {})
    return job


CONSUMED: dict[str, Callable[[World], Any]] = {
    "two jobs": lambda w: ended(w, "complete"),
    "one of two guards": lambda w: ended(w, "complete", routing=[rule(when=OK), rule(when={**OK, "op": "neq"})]),
    "no guard": lambda w: ended(w, "complete", routing=[rule(when={**OK, "op": "neq"})]),
    "large": lambda w: ended(w, "complete", context=requests.LARGE, routing=[
        rule(summary="s" * 200, context={"text": requests.LARGE["text"][:50_000]}, artifacts=[ARTIFACT] * 3)
    ]),
    "a role that is gone": without_a_role,
    "a job that was retried meanwhile": retried_meanwhile,
    "two endings at once": lambda w: ended(w, "fail", "complete"),
    "several messages": lambda w: [ended(w, "complete"), ended(w, "fail")],
}  # fmt: skip


@pytest.mark.parametrize("name", CONSUMED)
def test_consumer(name: str) -> None:
    judge(Case(CONSUMED[name], lambda w, _: serve_messages(w, "routing")))


def test_dispatcher() -> None:
    """What sends the message dies; the stream begins again there."""
    judge(Case(lambda w: ended(w, "fail", "fail", dispatched=False), lambda w, _: serve_changes(w)))


@pytest.mark.parametrize("back", [False, True], ids=["deleted", "deleted and made again"])
def test_a_role_that_goes_after_the_crash(back: bool) -> None:
    """Whatever the dead consumer had done, what the event tells is what there is."""
    case = Case(
        lambda w: ended(w, "complete", routing=[rule(role="ops"), rule(), rule(role="ops")]),
        lambda w, _: serve_messages(w, "routing"),
    )
    for fault in case.faults:
        w, faults, _ = case.broken(fault)
        try:
            w.ok("DELETE", "P/roles/ops", token="owner")
            if back:
                w.ok("POST", "P/roles", {"key": "ops", "label": "O"}, token="owner")
            recover(w, faults, case.late)
            oracle.check(w)
            (event,) = (
                event
                for event in oracle.memory(w).events[f"default#job#{case.context}"]
                if event["type"] == "job.routed"
            )
            assert len(event["data"]["created"]) in ((3,) if back else (1, 3))
        except (AssertionError, InterlockError) as error:
            raise case.told(fault, AssertionError(str(error))) from error
