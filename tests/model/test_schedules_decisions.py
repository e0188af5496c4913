"""Races for decisions: many who answer, withdraw, ask and expire at once, and claims that end meanwhile.

What must hold of every decision is judged by tests/sim/oracle_decisions.py after each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.hands import REASON, Hand, answers, messengers, rest, statuses, team, told
from tests.sim.oracle_decisions import named
from tests.sim.race import Race, Sent, explore

QUESTION = {"kind": "question", "prompt": "which?", "blocker": "b", "risk": "r", "roles": ["qa"]}


def asked(race: Race, job: dict[str, Any] | None = None, **more: Any) -> tuple[Hand, str]:
    """(the agent that holds a job, the decision that it has asked)."""
    race.w.enrol("maker", ("developer", "reviewer"))
    race.w.enrol("judge", ("qa",))
    hand = Hand(race, race.w.job(**{"max_retries": 9, **(job or {})}), "maker").take()
    return hand, asks_now(hand, **more)


def asks_now(hand: Hand, **more: Any) -> str:
    """Ask before the race; the decision."""
    made = hand.race.w.ok("POST", f"P/jobs/{hand.job}/decisions", body_of(hand, **more), token=hand.token)
    return str(made["decision"]["id"])


def body_of(hand: Hand, **more: Any) -> dict[str, Any]:
    """The body of an ask."""
    return {"fence": hand.fence, **QUESTION, **more}


def ask(hand: Hand, name: str = "ask", key: str | None = None, **more: Any) -> Sent:
    """An actor that asks."""
    path = f"P/jobs/{hand.job}/decisions"
    return hand.race.calls(name, "POST", path, body_of(hand, **more), token=hand.token, key=key)


def answer(race: Race, decision: str, given: Any = "a", name: str = "", **more: Any) -> Sent:
    """An actor that answers."""
    token = more.pop("token", race.rng.choice(["owner", "judge"]))
    path = f"P/decisions/{decision}/answer"
    return race.calls(name or f"answer {given}", "POST", path, {"answer": given}, token=token, **more)


def withdraw(race: Race, decision: str, name: str = "withdraw", **more: Any) -> Sent:
    """An actor that withdraws."""
    token = more.pop("token", race.rng.choice(["owner", "maker"]))
    return race.calls(name, "POST", f"P/decisions/{decision}/withdraw", {"note": "n"}, token=token, **more)


def state_of(race: Race, job: str) -> list[tuple[str, Any]]:
    """The job's decisions, oldest first: (state, answer)."""
    return [(each.state, each.answer) for each in named(oracle.memory(race.w), job)]


def one_won(sent: list[Sent], *, lost: str = "decision_closed") -> Sent | None:
    """The one call that was answered; all others came too late."""
    won = [s for s in sent if s.status == 200]
    assert len(won) <= 1, [str(s) for s in sent]
    assert {s.code for s in sent if s.status != 200} <= {lost}, [str(s) for s in sent]
    return won[0] if won else None


# ---- closing


def answer_against_withdrawal(race: Race) -> None:
    """One of them closes it, the other learns that it is closed; a job that waited goes on once."""
    waits = race.rng.random() < 0.7
    hand, decision = asked(race, wait=waits)
    sent = [answer(race, decision), withdraw(race, decision)]
    messengers(race)
    race.run()
    won = one_won(sent)
    assert won is not None
    rest(race)
    assert state_of(race, hand.job) == [("answered", "a") if won is sent[0] else ("withdrawn", None)]
    assert statuses(race, [hand.job]) == ["unblocked" if waits else "in_progress"]


def many_answers(race: Race) -> None:
    """Of many answers one counts, and it is the one that its caller was told of."""
    hand, decision = asked(race)
    race.w.enrol("judge2", ("qa",))
    sent = [
        answer(race, decision, f"a{n}", token=token) for n, token in enumerate(["owner", "judge", "judge2"])
    ]
    messengers(race)
    race.run()
    won = one_won(sent)
    assert won is not None
    assert won.reply.body["decision"]["answer"] == won.body["answer"]
    assert state_of(race, hand.job) == [("answered", won.body["answer"])]
    assert told_after(race, hand.job)["job.decision_answered"] == 1


def told_after(race: Race, job: str) -> Any:
    """The job's events by type, once the bus is at rest."""
    rest(race)
    return told(race, job)


def twins_of_an_answer(race: Race) -> None:
    """Sent again with its key while it is carried out: one answer, and repeats of it."""
    _, decision = asked(race)
    twins = [answer(race, decision, "a", f"twin{n}", key="k", token="judge") for n in range(3)]
    other = withdraw(race, decision)
    messengers(race)
    race.run()
    if other.status == 200:
        assert answers(twins) == {"decision_closed": 3}
        return
    assert answers(twins) == {200: 3}
    assert [s.replayed for s in twins].count(False) == 1
    assert {s.reply.body["decision"]["state"] for s in twins} == {"answered"}


def answer_against_expiry(race: Race) -> None:
    """Its time is over while it is answered or taken back: it is answered, withdrawn or expired, never two of them."""
    hand, decision = asked(race, expires_in=30, wait=race.rng.random() < 0.7)
    race.w.dispatch()
    sent = [answer(race, decision)]
    sent += [withdraw(race, decision)] if race.rng.random() < 0.4 else []
    race.clock(29, 1, 1)
    race.consumer(rounds=4)
    race.consumer(rounds=4, name="consumer2")
    race.run()
    won = one_won(sent)
    rest(race)
    if won is None:
        assert state_of(race, hand.job) == [("expired", None)]
        assert {s.reply.body["state"] for s in sent} == {"expired"}
    ends = told(race, hand.job)
    assert sum(ends[f"job.decision_{way}"] for way in ("answered", "withdrawn", "expired")) == 1


ENDS = ("release", "fail", "complete", "reject", "stop", "cancel", "lapse")


def answer_against_the_end_of_the_claim(race: Race) -> None:
    """The claim under which it was asked ends while it is answered: it is answered in time, or withdrawn by the bus."""
    w, how = race.w, race.rng.choice(ENDS)
    target = w.job()
    target_fence = w.claim(target)
    w.ok("POST", f"P/jobs/{target}/complete", {"fence": target_fence})
    w.pump()
    fields = {"blocked_by": [target], "role": "reviewer", "lease_seconds": 30}
    hand, decision = asked(race, fields, wait=how not in ("complete", "reject", "lapse"))
    more = [asks_now(hand, wait=False) for _ in range(race.rng.choice([0, 0, 1, 3]))]
    w.dispatch()
    sent = [answer(race, decision)]
    if how == "lapse":
        race.clock(30, 4, 3)
        race.consumer(rounds=3)
        race.calls("rival", "POST", f"P/jobs/{hand.job}/claim", {}, token=team(race, 1)[0])
    elif how == "reject":
        body = {"fence": hand.fence, "target": target, **REASON}
        race.calls("reject", "POST", f"P/jobs/{hand.job}/reject", body, token="maker")
    else:
        hand.does([how])
    messengers(race)
    race.run()
    won = one_won(sent)
    rest(race)
    states = [state for state, _ in state_of(race, hand.job)]
    assert states == ["answered" if won else "withdrawn", *["withdrawn"] * len(more)]
    assert oracle.memory(w).heads[f"default#job#{hand.job}"].asked is None


def answer_against_an_artifact(race: Race) -> None:
    """The work changes while it is judged: an answer counts only for the work as it was when it was asked about."""
    hand, decision = asked(
        race, wait=race.rng.random() < 0.5, **{"kind": "review", "blocker": None, "risk": None}
    )
    sent = answer(race, decision, "approve")
    body = {"fence": hand.fence, "type": "log", "uri": "file:///l"}
    attached = race.calls("attach", "POST", f"P/jobs/{hand.job}/artifacts", body, token="maker")
    messengers(race)
    race.run()
    assert attached.status == 201, str(attached)
    rest(race)
    events = [e["type"] for e in oracle.memory(race.w).events[f"default#job#{hand.job}"]]
    if sent.status == 200:
        assert events.index("job.decision_answered") < events.index("job.artifact_added")
    else:
        assert sent.code == "subject_changed", str(sent)
        assert state_of(race, hand.job) == [("open", None)]
        race.w.ok("POST", f"P/decisions/{decision}/withdraw", {}, token="maker")
    shown = race.w.get(hand.job)
    assert (shown["approved_by"], shown["open_decisions"]) == (None, [])


# ---- asking


def two_asks(race: Race) -> None:
    """Of two that block the job one is asked; of those that do not, all."""
    race.w.enrol("maker")
    hand = Hand(race, race.w.job(), "maker").take()
    waits = [race.rng.random() < 0.6 for _ in range(3)]
    sent = [ask(hand, f"ask{n}", prompt=f"p{n}", wait=wait) for n, wait in enumerate(waits)]
    messengers(race)
    race.run()
    blocking = [s for s, wait in zip(sent, waits, strict=True) if wait]
    assert answers(s for s in sent if s not in blocking) in ({}, {201: 3 - len(blocking)})
    if blocking:
        assert answers(blocking)[201] == 1
        assert answers(blocking)["wrong_state"] == len(blocking) - 1
    assert told_after(race, hand.job)["job.decision_requested"] == 3 - max(0, len(blocking) - 1)


def twins_of_an_ask(race: Race) -> None:
    """Sent again with its key, while the answer comes: one decision."""
    race.w.enrol("maker")
    race.w.enrol("judge", ("qa",))
    hand = Hand(race, race.w.job(), "maker").take()
    twins = [ask(hand, f"twin{n}", key="k") for n in range(3)]

    def judge() -> None:
        for _ in range(6):
            for each in race.w.ok("GET", "P/decisions", token="judge")["items"]:
                race.w.call("POST", f"P/decisions/{each['id']}/answer", {"answer": "a"}, token="judge")

    race.does("judge", judge)
    for n in range(2):  # what moves the job between one twin's reading and another's writing
        body = {"type": "custom.note", "data": {"n": n}}
        race.calls(f"note{n}", "POST", f"P/jobs/{hand.job}/events", body, token="maker")
    messengers(race)
    race.run()
    assert answers(twins) == {201: 1, 200: 2}
    rest(race)
    (made,) = named(oracle.memory(race.w), hand.job)
    assert {s.reply.body["decision"]["id"] for s in twins} == {made.id}


def ask_against_the_end_of_the_claim(race: Race) -> None:
    """The lease lapses, an owner stops or cancels the job, its holder beats: it is asked, or the claim was lost."""
    w = race.w
    w.enrol("maker")
    how = race.rng.choice(["lapse", "lapse", "stop", "cancel", "beat", "complete"])
    on_expire = race.rng.choice(["publish", "fail", "ask"])
    hand = Hand(race, w.job(lease_seconds=30, on_expire=on_expire), "maker").take()
    w.dispatch()
    sent = [ask(hand, f"ask{n}", wait=n == 0) for n in range(race.rng.choice([1, 2]))]
    if how == "lapse":
        race.clock(30, 4, 3)
        race.consumer(rounds=3)
        race.calls("rival", "POST", f"P/jobs/{hand.job}/claim", {}, token=team(race, 1)[0])
    elif how == "beat":
        race.clock(22)
        beat = {"jobs": [{"id": hand.job, "fence": hand.fence}]}
        race.calls("beat", "POST", "P/heartbeat", beat, token="maker")
        race.calls("look", "GET", f"P/jobs/{hand.job}", token="maker")
    else:
        hand.does([how])
    messengers(race)
    race.run()
    refusals = {"lease_lost", "stop_requested", "wrong_state", "not_holder"}
    assert all(s.status == 201 or s.code in refusals for s in sent), [str(s) for s in sent]
    if how == "beat":
        assert answers(sent) == {201: len(sent)}


# ---- leases that lapse into a decision


def a_lapse_asks_once(race: Race) -> None:
    """The timer, others who want the job, and claim-next find the lease over at once: one decision, one attempt."""
    w = race.w
    w.enrol("maker")
    hand = Hand(race, w.job(on_expire="ask", lease_seconds=30), "maker").take()
    if race.rng.random() < 0.4:
        asks_now(hand, wait=False)
    w.dispatch()
    w.clock.advance(race.rng.choice([33, 40]))
    rivals = [race.calls(name, "POST", f"P/jobs/{hand.job}/claim", {}, token=name) for name in team(race, 2)]
    walker = race.calls("walker", "POST", "P/claims", {}, token="agent")
    race.calls("holder", "GET", f"P/jobs/{hand.job}", token="maker")
    race.consumer(rounds=3)
    race.consumer(rounds=3, name="consumer2")
    race.dispatcher()
    race.run()
    assert answers(rivals)["not_yet"] + answers(rivals)["already_claimed"] == 2, answers(rivals)
    assert walker.reply.body["job"] is None
    rest(race)
    w.clock.advance(60)
    rest(race)
    head = oracle.memory(w).heads[f"default#job#{hand.job}"]
    if head.status == "blocked":
        assert (head.retry_count, head.assignee, list(head.asked or ())) == (1, None, [head.decision])
        assert [state for state, _ in state_of(race, hand.job)].count("open") == 1
    assert told(race, hand.job)["job.lease_expired"] == 1


def lapsed(race: Race) -> tuple[str, str]:
    """(a job whose lease has lapsed into a decision, the decision)."""
    w = race.w
    w.enrol("maker")
    job = w.job(on_expire="ask", lease_seconds=30)
    w.claim(job, token="maker")
    w.dispatch()
    w.clock.advance(40)
    w.pump()
    return job, w.get(job)["decision"]


def claims_after_an_answer(race: Race) -> None:
    """`publish` lets exactly one other worker have the job; other answers and a withdrawal come too late."""
    job, decision = lapsed(race)
    owners = [
        answer(race, decision, given, token="owner")
        for given in race.rng.sample(["publish", "fail", "cancel"], 2)
    ]
    owners += [withdraw(race, decision, token="owner")] if race.rng.random() < 0.5 else []
    for name in team(race, 2):
        race.does(
            name,
            lambda name=name: (
                [race.w.call("POST", f"P/jobs/{job}/claim", {}, token=name) for _ in range(5)] and None
            ),
        )
    messengers(race)
    race.run()
    won = one_won(owners)
    assert won is not None
    given = "publish" if won.path.endswith("withdraw") else won.body["answer"]
    claimed = [s for s in race.record if s.path.endswith("/claim") and s.status == 200 and s.actor != ""]
    assert len(claimed) <= (given == "publish")
    rest(race)
    (status,) = statuses(race, [job])
    wanted = {"publish": "in_progress" if claimed else "published", "fail": "failed", "cancel": "cancelled"}
    assert status == wanted[given]


# ---- budgets


def beats(hand: Hand, tokens: int, name: str) -> Sent:
    """An actor that reports usage with a heartbeat."""
    beat = {"jobs": [{"id": hand.job, "fence": hand.fence, "usage": {"input_tokens": tokens}}]}
    return hand.race.calls(name, "POST", "P/heartbeat", beat, token=hand.token)


def spender(race: Race, **fields: Any) -> Hand:
    """An agent that holds a job with a budget of 100 tokens."""
    race.w.enrol("maker", ("developer", "reviewer"))
    return Hand(race, race.w.job(budget={"tokens": 100}, **fields), "maker").take()


def a_budget_that_is_spent_asks_once(race: Race) -> None:
    """Reports beyond it come several at a time, beside a question, an end of the claim, or a repeat of themselves."""
    hand = spender(race)
    reports = [beats(hand, tokens, f"beat{n}") for n, tokens in enumerate([150, 200, 150])]
    beside = race.rng.choice(["ask", "complete", "release", "stop", "nothing"])
    if beside == "ask":
        ask(hand, wait=race.rng.random() < 0.5)
    elif beside != "nothing":
        hand.does([beside])
    messengers(race)
    race.run()
    assert answers(reports) == {200: 3}
    rest(race)
    asked_about = [each for each in named(oracle.memory(race.w), hand.job) if each.cause == "budget"]
    assert len(asked_about) <= 1
    if beside == "nothing":
        assert [each.state for each in asked_about] == ["open"]
        assert statuses(race, [hand.job]) == ["blocked"]


def answers_to_a_budget(race: Race) -> None:
    """It is raised, or the job is stopped or cancelled; its holder beats and goes on meanwhile."""
    w = race.w
    hand = spender(race)
    beat = {"jobs": [{"id": hand.job, "fence": hand.fence, "usage": {"input_tokens": 150}}]}
    w.ok("POST", "P/heartbeat", beat, token="maker")
    decision = w.get(hand.job)["decision"]
    raised = race.rng.choice([151, 1_000])
    given: dict[str, Any] = {"raise": {"tokens": raised}, "stop": None, "cancel": None}
    sent = []
    for option in race.rng.sample(sorted(given), 2):
        body = {"answer": option, **({"data": given[option]} if given[option] else {})}
        path = f"P/decisions/{decision}/answer"
        sent.append(race.calls(option, "POST", path, body, token="owner", key=option))
    sent += [withdraw(race, decision, token="owner")] if race.rng.random() < 0.3 else []

    def goes_on() -> None:
        for number in range(4):
            w.call("POST", f"P/jobs/{hand.job}/resume", {"fence": hand.fence}, token="maker")
            used = {"input_tokens": 160 + number}
            report = {"jobs": [{"id": hand.job, "fence": hand.fence, "usage": used}]}
            w.call("POST", "P/heartbeat", report, token="maker")

    race.does("maker", goes_on)
    messengers(race)
    race.run()
    # by the time that it is raised to 151 more may be spent
    won = one_won([s for s in sent if s.code != "invalid" or s.body["data"] != {"tokens": 151}])
    assert won is not None
    rest(race)
    how = won.body.get("answer", "withdraw")
    head = oracle.memory(w).heads[f"default#job#{hand.job}"]
    wanted = {"stop": ["failed"], "cancel": ["cancelled"]}.get(how, ["in_progress", "unblocked", "blocked"])
    assert head.status in wanted
    assert head.budget == {"tokens": raised if how == "raise" else 100, "count": "reported"}
    if head.status == "in_progress":
        assert how == "raise"


SCENARIOS: list[Callable[[Race], None]] = [
    answer_against_withdrawal,
    many_answers,
    twins_of_an_answer,
    answer_against_expiry,
    answer_against_the_end_of_the_claim,
    answer_against_an_artifact,
    two_asks,
    twins_of_an_ask,
    ask_against_the_end_of_the_claim,
    a_lapse_asks_once,
    claims_after_an_answer,
    a_budget_that_is_spent_asks_once,
    answers_to_a_budget,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 5)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 60)
