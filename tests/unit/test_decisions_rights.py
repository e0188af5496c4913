"""Who may do what with decisions, what each sees, and where the job stands: the odd cases of both."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.test_decisions import QUESTION, ask, held, lapsed, reply


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- roles


def test_roles_that_are_not_there(w: CheckedWorld) -> None:
    job, fence = held(w)
    w.ok("DELETE", "P/roles/qa", token="owner")
    for roles in (["nobody"], ["qa"], ["reviewer", "nobody"]):
        body = {"fence": fence, **QUESTION, "roles": roles}
        refused = w.refused("unknown_role", "POST", f"P/jobs/{job}/decisions", body)
        assert refused.body["errors"][0]["path"] == f"roles/{len(roles) - 1}"
    for roles in ([""], ["A"], [1], ["x" * 41], ["reviewer"] * 11, "reviewer", None):
        w.refused("invalid", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "roles": roles})
    made = ask(w, job, fence, **QUESTION, roles=["reviewer", "reviewer", "ops"])
    assert made["roles"] == ["reviewer", "ops"]


def test_a_role_that_is_deleted_meanwhile_answers_nothing(w: CheckedWorld) -> None:
    w.enrol("judge", ("reviewer", "qa"))
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, roles=["reviewer"])
    w.ok("DELETE", "P/roles/reviewer", token="owner")
    path = f"P/decisions/{made['id']}/answer"
    w.refused("forbidden", "POST", path, {"answer": "a"}, token="judge")
    assert reply(w, made["id"], "a")["job"]["status"] == "unblocked"


def test_an_agent_whose_role_was_taken_away_answers_nothing(w: CheckedWorld) -> None:
    judge = w.enrol("judge", ("reviewer", "qa"))
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, roles=["reviewer"])
    path = f"P/decisions/{made['id']}/answer"
    w.ok("PATCH", f"P/agents/{judge}", {"roles": ["qa"]}, token="owner")
    w.refused("forbidden", "POST", path, {"answer": "a"}, token="judge")
    w.ok("PATCH", f"P/agents/{judge}", {"roles": ["reviewer"]}, token="owner")
    reply(w, made["id"], "a", token="judge")


# ---- who may


def both(w: CheckedWorld, roles: list[str]) -> tuple[str, str, int]:
    """(a decision that the agent `maker` asked, its job, the fence)."""
    job = w.job()
    fence = w.claim(job, token="maker")
    body = {"fence": fence, **QUESTION, "roles": roles}
    return w.ok("POST", f"P/jobs/{job}/decisions", body, token="maker")["decision"]["id"], job, fence


@pytest.mark.parametrize("roles", [[], ["developer"], ["qa"]], ids=["no role", "its own", "another's"])
def test_asker_and_holder_never_answer(w: CheckedWorld, roles: list[str]) -> None:
    w.enrol("maker", ("developer",))
    decision, job, fence = both(w, roles)
    path = f"P/decisions/{decision}/answer"
    w.refused("self_answer", "POST", path, {"answer": "a"}, token="maker")
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence}, token="maker")
    w.refused(
        "self_answer", "POST", path, {"answer": "a"}, token="maker"
    )  # it asked, though it holds nothing
    w.enrol("next", ("developer", "qa"))
    w.claim(job, token="next")
    w.refused("self_answer", "POST", path, {"answer": "a"}, token="next")  # it holds, though another asked


def test_a_holder_answers_about_no_job_that_it_holds_but_about_others(w: CheckedWorld) -> None:
    w.enrol("maker", ("developer",))
    w.enrol("judge", ("developer", "qa"))
    decision, _, _ = both(w, ["qa"])
    w.claim(w.job(), token="judge")
    reply(w, decision, "a", token="judge")


def test_viewers_read_and_do_nothing(w: CheckedWorld) -> None:
    w.viewer()
    job, fence = held(w)
    made = ask(w, job, fence)
    assert w.ok("GET", f"P/decisions/{made['id']}", token="viewer")["decision"]["id"] == made["id"]
    assert len(w.ok("GET", "P/decisions", token="viewer")["items"]) == 1
    for verb, body in (("answer", {"answer": "a"}), ("withdraw", {})):
        w.refused("forbidden", "POST", f"P/decisions/{made['id']}/{verb}", body, token="viewer")


def test_what_was_asked_under_a_lost_claim(w: CheckedWorld) -> None:
    job, fence = held(w)
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    body = {"fence": fence, **QUESTION}
    w.refused("lease_lost", "POST", f"P/jobs/{job}/decisions", body)
    w.refused("lease_lost", "POST", f"P/jobs/{job}/decisions", {**body, "fence": 2**53})
    again = w.claim(job)
    w.refused("lease_lost", "POST", f"P/jobs/{job}/decisions", body)
    w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r"}, token="owner")
    w.refused("stop_requested", "POST", f"P/jobs/{job}/decisions", {**body, "fence": again})
    for wrong in (0, -1, 1.0, "1", None, True):
        w.refused("invalid", "POST", f"P/jobs/{job}/decisions", {**body, "fence": wrong})


# ---- where each role sees its own


@pytest.fixture
def apart(w: CheckedWorld) -> CheckedWorld:
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("maker", ("developer",))
    w.enrol("judge", ("qa",))
    w.enrol("other", ("ops",))
    return w


def test_whoever_is_named_sees_the_decision_and_its_job_until_it_is_closed(apart: CheckedWorld) -> None:
    w = apart
    decision, job, _ = both(w, ["qa"])
    one = f"P/decisions/{decision}"
    for token, status in (("maker", 200), ("judge", 200), ("other", 404), ("owner", 200)):
        assert w.call("GET", one, token=token).status == status, token
        assert w.call("GET", f"P/jobs/{job}", token=token).status == status, token
        shown = w.ok("GET", "P/decisions", token=token)["items"]
        assert [each["id"] for each in shown] == ([decision] if status == 200 else []), token
    w.refused("not_found", "POST", f"{one}/answer", {"answer": "a"}, token="other")
    w.refused("not_found", "POST", f"{one}/withdraw", {}, token="other")
    w.refused("forbidden", "POST", f"{one}/withdraw", {}, token="judge")
    answered = w.ok("POST", f"{one}/answer", {"answer": "a"}, token="judge", key="k")
    assert answered["job"]["id"] == job
    again = w.call("POST", f"{one}/answer", {"answer": "a"}, token="judge", key="k")
    assert (again.status, again.body["decision"]["state"]) == (200, "answered")
    assert w.ok("GET", one, token="judge")["decision"]["answer"] == "a"
    assert w.ok("GET", one, token="maker")["decision"]["answer"] == "a"
    assert w.call("GET", one, token="other").status == 404
    assert w.call("GET", f"P/jobs/{job}", token="judge").status == 404


def test_an_agent_whose_only_relation_is_the_named_role_does_nothing_else(apart: CheckedWorld) -> None:
    w = apart
    _, job, fence = both(w, ["qa"])
    w.refused("wrong_role", "POST", f"P/jobs/{job}/claim", {}, token="judge")
    w.refused("not_holder", "POST", f"P/jobs/{job}/release", {"fence": fence}, token="judge")
    w.refused("not_holder", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION}, token="judge")
    assert w.call("POST", f"P/jobs/{job}/cancel", {"reason": "r"}, token="judge").code in (
        "forbidden",
        "not_holder",
    )


def test_decisions_of_others_are_told_from_none_by_nobody(apart: CheckedWorld) -> None:
    w = apart
    decision, job, _ = both(w, [])
    number = int(decision.rpartition("_")[2])
    none = decision.replace(f"_{number}", f"_{number + 1}")
    answers = [w.call("GET", f"P/decisions/{name}", token="other") for name in (decision, none)]
    assert answers[0].body == answers[1].body
    assert w.ok("GET", "P/decisions", query={"job": job, "state": "all"}, token="other")["items"] == []


def test_a_holder_whose_roles_were_taken_away_still_asks_sees_and_withdraws(apart: CheckedWorld) -> None:
    w = apart
    job = w.job()
    maker = w.ok("GET", "P/me", token="maker")["actor"]["id"]
    fence = w.claim(job, token="maker")
    w.ok("PATCH", f"P/agents/{maker}", {"roles": ["ops"]}, token="owner")
    made = w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION}, token="maker")["decision"][
        "id"
    ]
    assert w.ok("GET", f"P/decisions/{made}", token="maker")["decision"]["id"] == made
    w.ok("POST", f"P/decisions/{made}/withdraw", {}, token="maker")


# ---- where the job stands


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("status", ["in_progress", "blocked", "unblocked"])
def test_a_holder_asks_wherever_its_job_stands(w: CheckedWorld, status: str, wait: bool) -> None:
    job, fence = w.job_in(status)
    made = ask(w, job, fence, **QUESTION, wait=wait)
    assert w.get(job)["status"] == ("blocked" if wait else status)
    reply(w, made["id"], "a")
    assert w.get(job)["status"] == ("unblocked" if wait else status)
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    w.types(job)


@pytest.mark.parametrize("status", ["pending", "published", "completed", "failed", "cancelled"])
def test_nobody_asks_about_what_nobody_holds(w: CheckedWorld, status: str) -> None:
    job, fence = w.job_in(status)
    code = "wrong_state" if status in ("completed", "failed") else "lease_lost"
    w.refused(code, "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION})


def test_ten_are_open_at_most_and_an_answer_makes_room(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = [ask(w, job, fence, **QUESTION, wait=False)["id"] for _ in range(10)]
    body = {"fence": fence, **QUESTION}
    for wait in (True, False):
        w.refused("limit_reached", "POST", f"P/jobs/{job}/decisions", {**body, "wait": wait})
    reply(w, made[4], "a")
    ask(w, job, fence)
    for decision in [*made[:4], *made[5:]]:
        reply(w, decision, "a")
    assert w.get(job)["status"] == "blocked"
    assert len(w.get(job)["open_decisions"]) == 1


def test_a_new_claim_is_not_told_of_answers_to_the_last_one(w: CheckedWorld) -> None:
    def told() -> list[str]:
        beat = w.ok("POST", "P/heartbeat", {})
        return [notice["decision"] for notice in beat["notices"] if notice["code"] == "decision_answered"]

    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, wait=False)["id"]
    reply(w, made, "a")
    assert told() == [made]
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"})
    assert told() == []
    w.ok("POST", f"P/jobs/{job}/restart", {})
    assert told() == []


def test_an_answer_beside_leaves_what_blocks_alone(w: CheckedWorld) -> None:
    job, fence = held(w)
    beside = ask(w, job, fence, **QUESTION, wait=False)["id"]
    blocking = ask(w, job, fence)["id"]
    later = ask(w, job, fence, **QUESTION, wait=False)["id"]
    for decision in (beside, later):
        reply(w, decision, "a")
        assert (w.get(job)["status"], w.get(job)["decision"]) == ("blocked", blocking)
    reply(w, blocking, "a")
    assert (w.get(job)["status"], w.get(job)["decision"]) == ("unblocked", None)


def test_one_that_no_longer_waits_does_not_move_the_job(w: CheckedWorld) -> None:
    """It blocked the job until it expired; then another did."""
    job, fence = held(w)
    ask(w, job, fence, **QUESTION, expires_in=10)
    w.pump()
    w.clock.advance(11)
    w.pump()
    second = ask(w, job, fence)["id"]
    assert w.get(job)["decision"] == second
    reply(w, second, "a")
    assert w.get(job)["status"] == "unblocked"


# ---- reviews


def test_an_artifact_of_that_name_is_no_review(w: CheckedWorld) -> None:
    job, fence = held(w, requires=["review", "log"])
    artifacts = [{"type": "review", "uri": "s3://r"}, {"type": "log", "uri": "s3://l"}]
    body = {"fence": fence, "result": {"artifacts": artifacts}}
    refused = w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", body)
    assert [error["path"] for error in refused.body["errors"]] == ["review"]
    refused = w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", {"fence": fence})
    assert len(refused.body["errors"]) == 2


def test_a_review_by_another_agent_of_the_role_counts(w: CheckedWorld) -> None:
    w.enrol("judge", ("reviewer",))
    job, fence = held(w, requires=["review"])
    made = ask(w, job, fence, kind="review", prompt="p", roles=["reviewer"])
    reply(w, made["id"], "approve", token="judge")
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    body = {"fence": fence, "result": {"summary": "s", "artifacts": [{"type": "log", "uri": "s3://x"}]}}
    done = w.ok("POST", f"P/jobs/{job}/complete", body)["job"]
    assert done["approved_by"] == w.ok("GET", "P/me", token="judge")["actor"]["id"]


def test_of_two_reviews_the_latest_that_approved_the_work_as_it_is_counts(w: CheckedWorld) -> None:
    job, fence = held(w, requires=["review"])
    first = ask(w, job, fence, kind="review", prompt="p", wait=False)["id"]
    reply(w, first, "approve")
    w.ok("POST", f"P/jobs/{job}/artifacts", {"fence": fence, "type": "log", "uri": "s3://l"})
    w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", {"fence": fence})
    second = ask(w, job, fence, kind="review", prompt="p", wait=False)["id"]
    reply(w, second, "reject")
    w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", {"fence": fence})
    third = ask(w, job, fence, kind="review", prompt="p", wait=False)["id"]
    reply(w, third, "approve")
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})


# ---- leases that lapse into a decision


def test_a_lapse_withdraws_what_was_open_and_tells_its_own_subject(w: CheckedWorld) -> None:
    job, fence = held(w, on_expire="ask", lease_seconds=30)
    old = [ask(w, job, fence, **QUESTION, wait=False)["id"] for _ in range(10)]
    w.pump()
    w.clock.advance(40)
    w.pump()
    shown = w.get(job)
    assert (shown["status"], shown["open_decisions"]) == ("blocked", [shown["decision"]])
    found = w.ok("GET", f"P/decisions/{shown['decision']}", token="owner")["decision"]
    assert found["subject"]["rev"] == shown["rev"]
    assert {w.ok("GET", f"P/decisions/{each}", token="owner")["decision"]["state"] for each in old} == {
        "withdrawn"
    }


def test_what_an_owner_may_do_instead_of_answering_a_lapse(w: CheckedWorld) -> None:
    for verb, body, status in (
        ("cancel", {"reason": "r"}, "cancelled"),
        ("stop", {"reason": "r", "then": "publish"}, "published"),
        ("stop", {"reason": "r", "then": "fail"}, "failed"),
    ):
        job, found = lapsed(w)
        assert w.ok("POST", f"P/jobs/{job}/{verb}", body, token="owner")["job"]["status"] == status
        w.pump()
        assert w.ok("GET", f"P/decisions/{found['id']}", token="owner")["decision"]["state"] == "withdrawn"
        if status == "published":
            w.ok("POST", f"P/jobs/{job}/cancel", {"reason": "r"}, token="owner")


def test_nobody_but_an_owner_answers_a_lapse(w: CheckedWorld) -> None:
    w.enrol("judge", ("developer", "reviewer"))
    job, found = lapsed(w)
    path = f"P/decisions/{found['id']}"
    for token in ("agent", "judge"):
        w.refused("forbidden", "POST", f"{path}/answer", {"answer": "publish"}, token=token)
        w.refused("forbidden", "POST", f"{path}/withdraw", {}, token=token)
    for given in ("raise", "stop", "Publish", None, ["publish"]):
        w.refused("invalid", "POST", f"{path}/answer", {"answer": given}, token="owner")
    for verb in ("unblock", "resume", "release", "complete", "fail", "block", "heartbeat"):
        body = {"fence": 2, "reason": "r"}
        assert w.call("POST", f"P/jobs/{job}/{verb}", body).status in (403, 404, 409, 422)
    w.refused("wrong_state", "POST", f"P/jobs/{job}/unblock", {"reason": "r"}, token="owner")
    assert w.get(job)["status"] == "blocked"


# ---- budgets


def spent(w: CheckedWorld, **budget: Any) -> tuple[str, int, str]:
    """(a job that is beyond its budget, the fence, the decision about it)."""
    job, fence = held(w, budget=budget or {"tokens": 100})
    report = {"id": job, "fence": fence, "usage": {"input_tokens": 150, "usd": 1.5, "seconds": 60}}
    w.ok("POST", "P/heartbeat", {"jobs": [report]})
    return job, fence, w.get(job)["decision"]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"tokens": 100},
        {"tokens": 150},
        {"tokens": -1},
        {"tokens": True},
        {"tokens": "200"},
        {"tokens": 200.5},
        {"tokens": None},
        {"tokens": [200]},
        {"tokens": 10**999},
        {"usd": 1e308},
        {"seconds": 100},
        {"tokens": 200, "usd": 1},
        {"tokens": 200, "count": "metered"},
        {"Tokens": 200},
        {"\ud800": 1, "tokens": 200},
    ],
    ids=repr,
)
def test_a_budget_is_raised_to_no_nonsense(w: CheckedWorld, data: Any) -> None:
    job, _, decision = spent(w, tokens=100)
    body = {"answer": "raise", **({} if data is None else {"data": data})}
    w.refused("invalid", "POST", f"P/decisions/{decision}/answer", body, token="owner")
    assert w.get(job)["status"] == "blocked"
    raised = w.ok(
        "POST", f"P/decisions/{decision}/answer", {"answer": "raise", "data": {"tokens": 151}}, token="owner"
    )
    assert (raised["job"]["status"], raised["job"]["budget"]["tokens"]) == ("unblocked", 151)


def test_nobody_but_an_owner_answers_a_budget(w: CheckedWorld) -> None:
    w.enrol("judge", ("developer", "reviewer"))
    job, fence, decision = spent(w)
    path = f"P/decisions/{decision}"
    body = {"answer": "raise", "data": {"tokens": 200}}
    w.refused("self_answer", "POST", f"{path}/answer", body)
    w.refused("forbidden", "POST", f"{path}/answer", body, token="judge")
    w.refused("forbidden", "POST", f"{path}/withdraw", {})
    for verb in ("resume", "unblock", "complete"):
        more = {"reason": "r"} if verb == "unblock" else {}
        w.refused("wrong_state", "POST", f"P/jobs/{job}/{verb}", {"fence": fence, **more})
    w.refused("wrong_state", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION})
    for given in ("publish", "fail", "Raise", "", None, 5):
        w.refused("invalid", "POST", f"{path}/answer", {"answer": given}, token="owner")


@pytest.mark.parametrize(("given", "status"), [("stop", "failed"), ("cancel", "cancelled")])
def test_a_budget_that_is_not_raised_ends_the_job(w: CheckedWorld, given: str, status: str) -> None:
    job, fence, decision = spent(w)
    beside = w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": False})["decision"][
        "id"
    ]
    assert reply(w, decision, given)["job"]["status"] == status
    w.pump()
    assert w.ok("GET", f"P/decisions/{beside}", token="owner")["decision"]["state"] == "withdrawn"
    refused = w.call("POST", f"P/jobs/{job}/complete", {"fence": fence})
    assert refused.code == "stop_requested"


def test_a_budget_is_asked_about_beside_ten_questions(w: CheckedWorld) -> None:
    job, fence = held(w, budget={"tokens": 100})
    made = [ask(w, job, fence, **QUESTION, wait=False)["id"] for _ in range(10)]
    w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence, "usage": {"input_tokens": 101}}]})
    shown = w.get(job)
    assert shown["open_decisions"] == [*made, shown["decision"]]
    w.refused("limit_reached", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": False})
    w.ok("POST", f"P/decisions/{shown['decision']}/withdraw", {}, token="owner")
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence}]})
    assert w.get(job)["decision"] != shown["decision"], "withdrawn and not raised: it is asked again"
