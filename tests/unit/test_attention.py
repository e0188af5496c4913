"""`GET P/attention`: what needs a person is there, with what may be done about it; what goes on by itself is not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.meter import metered
from tests.sim.world import World, world
from tests.unit.checked import CheckedWorld, checked, judged

from interlock.app import attention
from interlock.domain import lifecycle
from interlock.domain.job import Job
from interlock.store import items, keys
from interlock.store.ports import Put


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def needs(w: World, token: str = "owner", **query: Any) -> list[dict[str, Any]]:
    """Every item, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        page = w.ok("GET", "P/attention", token=token, query=query)
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


def shown(w: World, **query: Any) -> set[tuple[str, str | None]]:
    return {(item["kind"], item.get("job")) for item in needs(w, **query)}


def fail(w: World, job: str, token: str = "agent") -> None:
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job, token), "reason": "broken"}, token=token)


def test_a_healthy_project_needs_nobody(w: CheckedWorld) -> None:
    for status in ("pending", "published", "in_progress", "unblocked", "completed", "cancelled"):
        w.job_in(status)
    assert needs(w) == []


def test_blocked_with_its_reason_and_what_an_owner_may_do(w: CheckedWorld) -> None:
    job, _ = w.job_in("blocked")
    (item,) = needs(w)
    assert (item["kind"], item["job"], item["status"], item["role"]) == (
        "blocked",
        job,
        "blocked",
        "developer",
    )
    assert "to block" in item["detail"]
    assert item["since"] == w.get(job)["blocked_at"]
    assert item["summary"] == w.get(job)["summary"]
    assert item["allowed"] == ["unblock", "stop", "cancel"]


def test_a_viewer_sees_it_and_may_do_nothing(w: CheckedWorld) -> None:
    w.job_in("blocked")
    w.viewer()
    assert [item["allowed"] for item in needs(w, "viewer")] == [[]]


@pytest.mark.parametrize("stage", [*lifecycle.STATUSES, lifecycle.CASCADED])
def test_what_is_allowed_comes_from_the_table(stage: str) -> None:
    rows = [row.operation for row in lifecycle.TRANSITIONS if stage in row.sources and "owner" in row.by]
    assert lifecycle.allowed_now(stage, "owner") == rows


def test_a_failure_waits_for_its_holder_or_an_owner_until_its_budget_is_spent(w: CheckedWorld) -> None:
    job = w.job(max_retries=1)
    fail(w, job)
    (item,) = needs(w)
    assert (item["kind"], item["allowed"]) == ("failed", ["retry"])
    assert "restart" in item["detail"]
    w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
    assert needs(w) == []
    fail(w, job)
    (item,) = needs(w)
    assert item["kind"] == "retries_spent"
    assert "all 1 retries" in item["detail"]
    assert item["since"] == w.get(job)["failed_at"]


def test_of_a_cascade_only_the_root_needs_a_person(w: CheckedWorld) -> None:
    root = w.job()
    middle = w.job(blocked_by=[root])
    last = w.job(blocked_by=[middle])
    fail(w, root)
    w.pump()
    assert w.get(last)["status"] == "failed"
    assert shown(w) == {("failed", root)}


def test_a_lease_that_is_over_and_that_nothing_has_ended(w: CheckedWorld) -> None:
    job = w.job(lease_seconds=30)
    w.claim(job)
    w.clock.advance(30)
    assert needs(w) == [], "its timer has not even fired"
    w.clock.advance(10)
    (item,) = needs(w)
    assert (item["kind"], item["job"]) == ("stale_holder", job)
    assert item["since"] == w.get(job)["lease_expires_at"]
    assert "stop" in item["allowed"]
    w.pump()
    assert needs(w) == [], "the timer came after all"


def test_a_renewed_lease_is_not_over(w: CheckedWorld) -> None:
    job = w.job(lease_seconds=60)
    w.claim(job)
    for _ in range(3):
        w.clock.advance(50)
        w.ok("POST", "P/heartbeat", {})
    assert needs(w) == []


def test_a_resume_window_that_is_over(w: CheckedWorld) -> None:
    job = w.job(lease_seconds=30)
    fence = w.claim(job)
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"})
    w.ok("POST", f"P/jobs/{job}/unblock", {"reason": "go"}, token="owner")
    w.clock.advance(40)
    assert shown(w) == {("stale_holder", job)}


def test_nobody_holds_the_role(w: CheckedWorld) -> None:
    w.ok("POST", "P/roles", {"key": "cook", "label": "Cook"}, token="owner")
    ready, waiting = w.job(role="cook"), w.job(role="cook", blocked_by=[w.job()])
    assert shown(w) == {("nobody_can_take", ready), ("nobody_can_take", waiting)}
    cook = w.enrol("cook", ("cook",))
    assert needs(w) == []
    w.ok("DELETE", f"P/agents/{cook}", token="owner")
    assert {item["detail"] for item in needs(w)} == {"no live agent holds role cook"}


def test_an_agent_whose_tokens_have_ended_can_take_nothing(w: CheckedWorld) -> None:
    w.ok("POST", "P/roles", {"key": "cook", "label": "Cook"}, token="owner")
    cook = w.enrol("cook", ("cook",))
    w.ok("POST", f"P/agents/{cook}/tokens", {"expires_in": 60}, token="owner")
    (first, _) = w.ok("GET", f"P/agents/{cook}", token="owner")["agent"]["tokens"]
    w.ok("DELETE", f"P/agents/{cook}/tokens/{first['id']}", token="owner")
    job = w.job(role="cook")
    assert needs(w) == []
    w.clock.advance(61)
    assert shown(w) == {("nobody_can_take", job)}


def test_the_role_was_deleted(w: CheckedWorld) -> None:
    job = w.job(role="qa")
    w.ok("DELETE", "P/roles/qa", token="owner")
    (item,) = needs(w)
    assert (item["kind"], item["job"], item["detail"]) == ("nobody_can_take", job, "role qa was deleted")


def test_nobody_has_the_capabilities(w: CheckedWorld) -> None:
    job = w.job(capabilities=["gpu", "sudo"])
    w.enrol("one", capabilities=["gpu"])
    w.enrol("two", capabilities=["sudo"])
    (item,) = needs(w)
    assert (item["job"], item["detail"]) == (job, "no live agent of role developer has gpu, sudo")
    w.enrol("both", capabilities=["sudo", "gpu", "more"])
    assert needs(w) == []


def test_everybody_who_could_review_did_the_work(w: CheckedWorld) -> None:
    work = w.job()
    review = w.job(role="reviewer", blocked_by=[work], independent=True)
    w.ok("POST", f"P/jobs/{work}/complete", {"fence": w.claim(work)})
    w.pump()
    (item,) = needs(w)
    assert (item["kind"], item["job"]) == ("nobody_can_take", review)
    assert "independent" in item["detail"]
    w.enrol("other", ("reviewer",))
    assert needs(w) == []


@pytest.mark.parametrize("status", ["pending", "published", "in_progress"])
def test_overdue(w: CheckedWorld, status: str) -> None:
    job, _ = w.job_in(status, deadline="2026-11-30T21:00:10Z")
    w.pump()
    w.clock.advance(20)
    w.pump()
    (item,) = needs(w)
    assert (item["kind"], item["job"], item["since"]) == ("overdue", job, "2026-11-30T21:00:10.000Z")


def test_blocked_and_overdue_is_one_thing_that_says_both(w: CheckedWorld) -> None:
    w.job_in("blocked", deadline="2026-11-30T21:00:10Z")
    w.pump()
    w.clock.advance(20)
    w.pump()
    (item,) = needs(w)
    assert item["kind"] == "blocked"
    assert item["detail"].endswith("past its deadline")


def sent_back(w: CheckedWorld) -> tuple[str, str, str]:
    """(work that a review sent back, a job that had begun on it by then, the retry)."""
    work = w.job()
    review, other = w.job(role="qa", blocked_by=[work]), w.job(blocked_by=[work])
    w.ok("POST", f"P/jobs/{work}/complete", {"fence": w.claim(work)})
    w.pump()
    fence = w.claim(review)
    body = {"fence": fence, "target": work, "reason": "no"}
    retry = w.ok("POST", f"P/jobs/{review}/reject", body)["retry"]["id"]
    w.pump()
    return work, other, retry


def test_others_had_begun_when_a_review_sent_work_back(w: CheckedWorld) -> None:
    work, other, retry = sent_back(w)
    (item,) = needs(w)
    assert (item["kind"], item["job"], item["jobs"], item["allowed"]) == (
        "reopened_upstream",
        work,
        [other],
        [],
    )
    notice = {"code": "reopened_upstream", "job": work, "detail": item["detail"]}
    assert notice in w.ok("GET", "P/me", token="owner")["notices"]
    w.ok("POST", f"P/jobs/{other}/complete", {"fence": w.claim(other)})
    assert shown(w) == {("reopened_upstream", work)}, "what it made is still of what is being done again"
    w.ok("POST", f"P/jobs/{retry}/complete", {"fence": w.claim(retry)})
    assert needs(w) == []


def test_nobody_needs_to_know_when_nothing_had_begun(w: CheckedWorld) -> None:
    work = w.job()
    review = w.job(role="qa", blocked_by=[work])
    w.ok("POST", f"P/jobs/{work}/complete", {"fence": w.claim(work)})
    w.pump()
    w.ok("POST", f"P/jobs/{review}/reject", {"fence": w.claim(review), "target": work, "reason": "no"})
    assert needs(w) == []


def test_dead_letters_are_for_those_who_may_redrive_them(w: CheckedWorld) -> None:
    body = {"kind": "retire", "project": "default", "agent": "agt_none"}
    w.bus.store.queues.send("lease-dead", [(body, 0), (body, 0)])
    w.bus.store.queues.send("dispatch-dead", [(body, 0)])
    w.person("of the project")
    w.person("of all", path="/v1/owners", rights="viewer")
    (item,) = needs(w, limit=1)
    assert (item["kind"], item["allowed"]) == ("dead_letters", ["redrive"])
    assert "lease-dead about 2" in item["detail"]
    assert "dispatch-dead about 1" in item["detail"]
    assert needs(w, "of the project") == needs(w, "of all") == []


def test_agents_are_not_asked(w: CheckedWorld) -> None:
    w.refused("forbidden", "GET", "P/attention")


def everything(w: CheckedWorld) -> set[tuple[str, str | None]]:
    """Something of every kind, some of it more than once."""
    for _ in range(3):
        w.job_in("blocked")
        w.job_in("failed")
        w.job_in("failed", max_retries=0)
        w.job(capabilities=["gpu"])
        w.job(role="ops", capabilities=["gpu"], not_before="2027-01-01T00:00:00Z")
    w.bus.store.queues.send("lease-dead", [({"kind": "x"}, 0)])
    w.job_in("in_progress", deadline="2026-11-30T21:00:10Z")
    sent_back(w)
    w.job_in("unblocked", lease_seconds=30)
    w.dispatch()
    w.clock.advance(600)
    w.consume("lease")
    job = w.job(lease_seconds=30)
    w.claim(job)
    w.clock.advance(60)
    return shown(w)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_show_everything_once(w: CheckedWorld, limit: int) -> None:
    whole = everything(w)
    assert {kind for kind, _ in whole} == {
        "dead_letters", "blocked", "stale_holder", "failed", "retries_spent", "reopened_upstream", "nobody_can_take", "overdue",
    }  # fmt: skip
    found = needs(w, limit=limit)
    assert {(item["kind"], item.get("job")) for item in found} == whole
    assert len(found) == len(whole)


def test_small_steps_show_everything_too(w: CheckedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is short, or empty, and still carries a cursor."""
    whole = everything(w)
    for name, value in (("ROWS", 2), ("HEADS", 1), ("BATCH", 3)):
        monkeypatch.setattr(attention, name, value)
    monkeypatch.setattr(attention.look, "__defaults__", (None, 2))
    found = needs(w)
    assert {(item["kind"], item.get("job")) for item in found} == whole
    assert len(found) == len(whole)


def test_the_latest_failures_come_first(w: CheckedWorld) -> None:
    failed = []
    for _ in range(3):
        failed.insert(0, w.job_in("failed")[0])
        w.clock.advance(1)
    assert [item["job"] for item in needs(w)] == failed


def test_a_cursor_belongs_to_its_project(w: CheckedWorld) -> None:
    for _ in range(2):
        w.job_in("blocked")
    cursor = w.ok("GET", "P/attention", token="owner", query={"limit": 1})["next_cursor"]
    other = w.project()
    for path, sent in ((f"{other}/attention", cursor), ("P/attention", "nonsense")):
        w.refused("bad_cursor", "GET", path, token="owner", query={"cursor": sent})
    w.refused("unknown_field", "GET", "P/attention", token="owner", query={"kind": "blocked"})


def test_a_page_costs_the_same_however_many_healthy_jobs_there_are() -> None:
    meters = []

    def wrap(store: Any) -> Any:
        counted, meter = metered(store)
        meters.append(meter)
        return counted

    w = judged(world(wrap=wrap))
    blocked = w.job()
    w.ok("POST", f"P/jobs/{blocked}/block", {"fence": w.claim(blocked), "reason": "r"})
    puts = []
    for number in range(5_000):
        head = Job(
            id=f"job_{number:026d}", project="default", status="published", role="developer", summary="s", priority=20,
            source="agent:x", source_label="x", created_at=number, updated_at=number, published_at=number, version=1,
        )  # fmt: skip
        key = items.head_key(head)
        item = {**items.attributes_of(head), **items.index_keys(head), "pk": key.pk, "sk": key.sk}
        puts.append(Put(keys.log(key.pk, 1)._replace(sk="ROW"), {**item, "sk": "ROW"}))
    w.engine.store.table.write_each(puts)
    meters[0].reads = meters[0].calls = 0
    page = w.ok("GET", "P/attention", token="owner")
    assert [item["job"] for item in page["items"]] == [blocked]
    assert page["next_cursor"]
    assert meters[0].calls <= 60
    assert meters[0].reads <= 150
    pages = 1
    while page["next_cursor"]:
        page = w.ok("GET", "P/attention", token="owner", query={"cursor": page["next_cursor"]})
        assert page["items"] == []
        pages += 1
    assert pages == 3
