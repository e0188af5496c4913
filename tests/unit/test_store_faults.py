"""A store that is throttled or fails, at each of its calls, in every operation: later, please, and nothing else."""

from __future__ import annotations

import pytest
from tests.sim.faults import Fault, Faults
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import Sent, arranged

from interlock.edges.operations import OPERATIONS
from interlock.errors import StoreError

USES_THE_STORE = [name for name in OPERATIONS if name != "system.openapi"]
COUNTS_FAILURES = {"system.redrive"}
"""A redrive counts what it could not handle and leaves it in the queue."""


class Case:
    """An operation in a world whose store can be told to fail."""

    def __init__(self, operation: str) -> None:
        self.faults = Faults()
        self.w: CheckedWorld = checked(wrap=self.faults.wrap)
        self.sent: Sent = arranged(self.w, operation)

    def steps(self) -> int:
        """How many calls of the store the operation makes."""
        self.faults.arm(None)
        assert self.sent.by(self.w).status < 300
        return len(self.faults.steps)


@pytest.mark.parametrize("how", ["throttled", "unavailable"])
@pytest.mark.parametrize("operation", USES_THE_STORE)
def test_each_call_of_the_store_may_fail(operation: str, how: str) -> None:
    code = "throttled" if how == "throttled" else "store_unavailable"
    keyed = {"key": "K"} if OPERATIONS[operation].method == "POST" else {}
    for at in range(1, Case(operation).steps() + 1):
        case = Case(operation)
        case.faults.arm(Fault(at, "before", how))
        reply = case.sent.by(case.w, **keyed)
        case.faults.disarm()
        if reply.status < 300:
            assert operation in COUNTS_FAILURES, f"step {at} failed unnoticed"
            assert reply.body["failed"] == 1
            continue
        assert (reply.code, reply.status) == (code, 429 if how == "throttled" else 503), f"step {at}"
        assert reply.body["retryable"] is True
        assert reply.headers["retry-after"] == "1"
        again = case.sent.by(case.w, **keyed)
        # an edit that took effect has moved the version that its repeat names
        done = again.status < 300 or (OPERATIONS[operation].edit and again.code == "version_mismatch")
        assert done, f"step {at}: {again.body}"


@pytest.mark.parametrize("operation", USES_THE_STORE)
def test_a_store_that_never_answers(operation: str) -> None:
    case = Case(operation)

    def down(*_: object) -> None:
        raise StoreError(detail="down")

    case.w.bus.store.table._hook = down
    case.w.bus.store.queues._hook = down
    reply = case.sent.by(case.w)
    assert (reply.status, reply.code, reply.body["detail"]) == (503, "store_unavailable", "down")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret 42"),
        KeyError("secret 42"),
        RecursionError("secret 42"),
        ZeroDivisionError("secret 42"),
        MemoryError(),
    ],
)
def test_a_defect_is_a_problem_document_without_a_trace(error: Exception) -> None:
    case = Case("jobs.create")

    def defect(*_: object) -> None:
        raise error

    case.w.bus.store.table._hook = defect
    reply = case.sent.by(case.w)
    assert (reply.status, reply.code) == (500, "internal")
    assert "secret" not in str(reply.body)
    assert reply.body["retryable"] is True


def test_many_callers_at_one_object_are_asked_to_come_back() -> None:
    case = Case("claims.block")
    w = case.w
    job = case.sent.path.split("/")[2]
    table, busy = w.bus.store.table, [True]
    inner = table._hook

    def racing(step: object, carry_out: object) -> object:
        if busy[0] and getattr(step, "verb", "") == "write":
            busy[0] = False
            w.ok("POST", f"P/jobs/{job}/events", {"type": "custom.noise"}, token="owner")
            busy[0] = True
        return inner(step, carry_out)

    table._hook = racing
    reply = case.sent.by(w)
    assert (reply.status, reply.code) == (429, "throttled")
    busy[0] = False
    assert case.sent.by(w).status == 200
