"""The cost budgets: units per use case on DynamoDB, computed from the requests (tests/sim/meter.py)."""

from __future__ import annotations

import random

import pytest
from tests.sim.meter import metered
from tests.sim.world import world

LIFECYCLE_WRITES = 15
CLAIM_NEXT_READS = 4


@pytest.fixture
def metered_world():
    meters = []

    def wrap(store):
        counted, meter = metered(store)
        meters.append(meter)
        return counted

    made = world(wrap=wrap)
    made.dispatch()
    meters[0].writes = meters[0].reads = 0
    return made, meters[0]


def context(size: int) -> dict[str, str]:
    """A context of about ``size`` bytes that does not compress like prose."""
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return {"objective": " ".join("".join(rng.choices(letters, k=9)) for _ in range(size // 10))}


def test_a_lifecycle_costs_15_write_units(metered_world):
    w, meter = metered_world
    w.job(
        summary="Count the attempt of a lapsed lease before the next claim",
        constraints=["The tests pass", "The changelog says why"],
        context=context(1_000),
    )
    w.dispatch()
    claim = w.ok("POST", "P/claims", {"roles": ["developer"]})
    w.dispatch()
    result = {"summary": "Done; 41 tests pass", "data": {"ok": True, "tests": 41}}
    w.ok(
        "POST", f"P/jobs/{claim['job']['id']}/complete", {"fence": claim["claim"]["fence"], "result": result}
    )
    w.dispatch()
    assert meter.writes == LIFECYCLE_WRITES, meter.log


def test_claim_next_costs_4_read_units(metered_world):
    w, meter = metered_world
    for _ in range(30):
        w.job(context=context(1_000))
    w.dispatch()
    meter.reads = 0
    assert w.ok("POST", "P/claims", {"roles": ["developer"]})["job"]
    assert meter.reads == CLAIM_NEXT_READS, meter.log


def test_keys_and_sessions_do_not_push_the_head_over_a_kilobyte(metered_world):
    w, meter = metered_world
    job = w.job(summary="x" * 120, key="create-1", external_id="ISSUE-1234", deadline="2027-01-01T00:00:00Z")
    fence = w.ok(
        "POST", f"P/jobs/{job}/claim", {"session": "terminal-1", "heartbeat_seconds": 30}, key="claim-1"
    )["claim"]["fence"]
    for turn in range(2):
        w.ok(
            "POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "waiting for a review"}, key=f"b{turn}"
        )
        w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence}, key=f"r{turn}")
    assert meter.largest_head <= 1_024


def test_a_renewal_costs_one_unit_and_no_index_write(metered_world):
    w, meter = metered_world
    job = w.job()
    w.claim(job, heartbeat_seconds=30)
    w.dispatch()
    w.clock.advance(5)
    w.ok("POST", "P/heartbeat", {})  # the agent's sign of life is written down, at most every ten seconds
    meter.writes = 0
    w.clock.advance(9)
    w.ok("POST", "P/heartbeat", {})
    assert meter.writes == 1
    w.clock.advance(40)
    w.ok("POST", "P/heartbeat", {})
    assert meter.writes == 3
    assert w.dispatch() == 0


@pytest.mark.parametrize("jobs", [10, 300])
def test_claim_and_complete_cost_the_same_on_a_small_and_a_large_board(metered_world, jobs):
    w, meter = metered_world
    for _ in range(jobs):
        w.job()
    w.dispatch()
    meter.writes = meter.reads = 0
    claim = w.ok("POST", "P/claims", {})
    w.ok("POST", f"P/jobs/{claim['job']['id']}/complete", {"fence": claim["claim"]["fence"]})
    w.dispatch()
    assert meter.writes <= 9
    assert meter.reads <= 10.5


def test_a_lifecycle_needs_few_invocations(metered_world):
    """Three calls, a third of a dispatcher batch of 10, a tenth of a lease consumer batch."""
    w, _ = metered_world
    before = w.bus.store.queues.depth("lease")
    job = w.job()
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": w.claim(job)})
    records = w.dispatch()
    timers = w.bus.store.queues.depth("lease") - before
    assert 3 + records / 10 + timers / 10 <= 3.7
    assert w.bus.store.queues.depth("barrier") == w.bus.store.queues.depth("routing") == 0, "nobody waits"


def units(meter, work):
    """Write and read units of what is done."""
    before = meter.writes, meter.reads
    work()
    return meter.writes - before[0], meter.reads - before[1]


def fan_in(w, meter, wide):
    """Units a link of creating a job with so many upstream jobs, and of their completion."""
    ups = [w.job() for _ in range(wide)]
    fences = {up: w.claim(up) for up in ups}
    w.pump()

    def create():
        w.job(blocked_by=ups)
        w.pump()

    def complete():
        for up, fence in fences.items():
            w.ok("POST", f"P/jobs/{up}/complete", {"fence": fence})
            w.pump()

    return [amount / wide for work in (create, complete) for amount in units(meter, work)]


def test_a_link_costs_the_same_whether_a_job_waits_for_few_or_for_many(metered_world):
    w, meter = metered_world
    few, many = fan_in(w, meter, 10), fan_in(w, meter, 150)
    assert all(later <= earlier for earlier, later in zip(few, many, strict=True)), (few, many)
    assert few[0] <= 4, "writes of a link: a row at each end, one of them in the head's transaction"


def test_a_level_of_a_cascade_costs_the_same_in_a_long_chain(metered_world):
    w, meter = metered_world

    def cascade(long):
        chain = [w.job()]
        fence = w.claim(chain[0])
        for _ in range(long):
            chain.append(w.job(blocked_by=[chain[-1]]))
        w.pump()
        w.ok("POST", f"P/jobs/{chain[0]}/fail", {"fence": fence, "reason": "broken"})
        spent = units(meter, w.pump)
        assert w.get(chain[-1])["status"] == "failed"
        return [amount / long for amount in spent]

    few, many = cascade(5), cascade(60)
    assert all(later <= earlier for earlier, later in zip(few, many, strict=True)), (few, many)


def test_rules_cost_the_caller_of_complete_no_unit(metered_world):
    w, meter = metered_world
    rules = [{"role": "qa", "summary": "Check it"}] * 10
    spent = []
    for routing in ([], rules):
        job = w.job(routing=routing)
        body = {"fence": w.claim(job)}
        w.dispatch()
        spent.append(units(meter, lambda job=job, body=body: w.ok("POST", f"P/jobs/{job}/complete", body)))
    plain, ruled = spent
    assert ruled[0] == plain[0]
    assert ruled[1] - plain[1] <= 1, "the rules are read with the job's other documents"
