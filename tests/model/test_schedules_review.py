"""Races for links between jobs that are there, and for reviews that send work back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.hands import (
    REASON,
    STORIES,
    Hand,
    answers,
    completed,
    held,
    messengers,
    post,
    rest,
    statuses,
    team,
    told,
)
from tests.sim.race import Race, Sent, explore

# ---- links


def link(race: Race, job: str, up: str, name: str = "", **more: Any) -> Sent:
    """An actor that lets a job wait for one more."""
    return race.calls(
        name or f"link {job[-4:]}-{up[-4:]}", "POST", f"P/jobs/{job}/links", {"upstream": up}, **more
    )


def links_round_a_circle(race: Race) -> None:
    """Each waits for the next, all asked for at once: never a circle, and only the last of them is refused."""
    w = race.w
    count = race.rng.choice([2, 2, 3, 4])
    jobs = [w.job() for _ in range(count)]
    if race.rng.random() < 0.5:  # one of the links is there since a creation
        jobs.append(w.job(blocked_by=[jobs[-1]]))
        pairs = [(jobs[n], jobs[(n + 1)]) for n in range(count - 1)] + [(jobs[-2], jobs[0])]
        pairs.append((jobs[0], jobs[-1]))
    else:
        pairs = [(jobs[n], jobs[(n + 1) % count]) for n in range(count)]
    sent = [link(race, job, up) for job, up in pairs]
    messengers(race)
    race.run()
    assert set(answers(sent)) <= {200, "cycle"}
    assert answers(sent)["cycle"] >= 1
    if len(jobs) == count:
        assert answers(sent)["cycle"] == 1


def link_against_claim(race: Race) -> None:
    """A job that was claimed does not wait any more; one that waits is not claimed."""
    w = race.w
    up, job = w.job(priority=10), w.job()
    linked = link(race, job, up)
    claim = race.calls("claim", "POST", f"P/jobs/{job}/claim", {})
    walker = race.calls("walker", "POST", "P/claims", {}, token=team(race, 1)[0])
    messengers(race)
    race.run()
    taken = claim.status == 200 or walker.reply.body["job"]["id"] == job
    assert (linked.code or linked.status) == ("wrong_state" if taken else 200)
    assert claim.status == 200 or claim.code in ("waiting_upstream", "already_claimed")


def link_while_the_upstream_ends(race: Race) -> None:
    """Twins of a link, other links, and upstream jobs that complete, fail and come back meanwhile."""
    w = race.w
    hands = held(race, 2)
    ways = {"on_upstream_failure": race.rng.choice(["match", "match", "continue"])}
    independent = race.rng.random() < 0.5
    job = w.job(blocked_by=race.rng.choice([[], [completed(race)]]), independent=independent, **ways)
    twins = [link(race, job, hands[0].job, f"twin{n}", key="k") for n in range(2)]
    other = link(race, job, hands[1].job, "other")
    for hand in hands:
        hand.does(race.rng.choice(STORIES))
    Hand(race, job, "agent0").does(["claim"], name="claimant")
    messengers(race, rounds=8)
    race.run()
    assert {s.code for s in (*twins, other)} <= {None, "wrong_state"}


def link_and_creation(race: Race) -> None:
    """A job is linked to one that is just created below it, and the other way round."""
    w = race.w
    old = w.job()
    key = {"key": "below"}
    body = {"summary": "s", "role": "developer", "blocked_by": [old]}

    def story() -> None:
        below = post(w, "P/jobs", body, **key).body["job"]["id"]
        post(w, f"P/jobs/{old}/links", {"upstream": below}, key="round")
        post(w, f"P/jobs/{below}/links", {"upstream": old}, key="twice")

    race.does("one", story)
    race.does("two", story)
    messengers(race)
    race.run()
    assert answers(s for s in race.record if s.key == "round") == {"cycle": 2}
    assert answers(s for s in race.record if s.key == "twice") == {200: 2}


def a_refused_twin_leaves_no_link(race: Race) -> None:
    """The same key with other upstream jobs: those of the refused call do not learn of it."""
    w = race.w
    ups = [w.job() for _ in range(2)]
    body = {"summary": "s", "role": "developer"}
    sent = [
        race.calls(f"creator{n}", "POST", "P/jobs", {**body, "blocked_by": [up], "parent": up}, key="k")
        for n, up in enumerate(ups)
    ]
    race.run()
    assert answers(sent) == {201: 1, "idempotency_mismatch": 1}
    rest(race)
    below = [w.get(up)["downstream"] for up in ups]
    assert sorted(map(len, below)) == [0, 1]
    kin = [w.ok("GET", "P/jobs", query={"parent": up}, token="owner")["items"] for up in ups]
    assert sorted(map(len, kin)) == [0, 1]


# ---- reviews


def work(race: Race, reviews: int = 1, **fields: Any) -> tuple[str, list[Hand]]:
    """(a completed job, those that hold its reviews)."""
    w = race.w
    w.enrol("maker")
    target = w.job(**fields)
    ids = [w.job(role="reviewer", blocked_by=[target]) for _ in range(reviews)]
    Hand(race, target, "maker").take().step("complete")
    w.pump()
    return target, [Hand(race, job, name).take() for job, name in zip(ids, team(race, reviews), strict=True)]


def rejection(hand: Hand, target: str, **more: Any) -> Any:
    """The call: method, path, body."""
    return ("POST", f"P/jobs/{hand.job}/reject", {"fence": hand.fence, "target": target, **REASON, **more})


def rejects(race: Race, hand: Hand, target: str, name: str = "", **more: Any) -> Sent:
    """An actor that sends the target back."""
    return race.calls(name or f"reject {hand.token}", *rejection(hand, target), token=hand.token, **more)


def reviewers_of_one_target(race: Race) -> None:
    """Two or three send it back at once: one retry, with all their reasons, for which all of them wait."""
    w = race.w
    target, hands = work(race, race.rng.choice([2, 3]), max_retries=race.rng.choice([1, 3]))
    sent = [rejects(race, hand, target) for hand in hands]
    messengers(race)
    race.run()
    assert answers(sent) == {200: len(hands)}
    (retry,) = {s.reply.body["retry"]["id"] for s in sent}
    rest(race)
    assert statuses(race, [retry, *(hand.job for hand in hands)]) == ["published", *["pending"] * len(hands)]
    told_why = w.ok("GET", f"P/jobs/{retry}/reopen-context", token="owner")["rejections"]
    assert {why["reviewer"] for why in told_why} == {hand.job for hand in hands}
    Hand(race, retry, "maker").take().step("complete")
    rest(race)
    assert set(statuses(race, [hand.job for hand in hands])) == {"published"}


def a_spent_budget(race: Race) -> None:
    """The lineage has no retry left: everybody is refused, and nothing is written."""
    target, hands = work(race, 2, max_retries=0)
    sent = [rejects(race, hand, target) for hand in hands]
    race.run()
    assert answers(sent) == {"retries_spent": 2}
    assert statuses(race, [hand.job for hand in hands]) == ["in_progress"] * 2
    assert told(race, target)["job.reopened"] == 0


def reject_against_the_end_of_the_review(race: Race) -> None:
    """The reviewer completes, its lease lapses, an owner stops or cancels it: one of them, never both."""
    w = race.w
    target, (hand,) = work(race)
    sent = rejects(race, hand, target)
    how = race.rng.choice(["complete", "lapse", "stop", "cancel", "release", "fail"])
    w.dispatch()
    if how == "lapse":
        race.clock(1_800, 4, 3)
        race.consumer(rounds=3)
        race.calls("rival", "POST", f"P/jobs/{hand.job}/claim", {})
    else:
        hand.does([how])
    race.run()
    rest(race)
    (status,) = statuses(race, [hand.job])
    if sent.status == 200:
        assert status in ("pending", "cancelled")
        assert told(race, hand.job)["job.rejected"] == 1
    else:
        assert sent.code in ("wrong_state", "lease_lost", "stop_requested", "not_holder")
        assert told(race, target)["job.reopened"] == 0


def twins_of_a_rejection(race: Race) -> None:
    """Sent again while it is carried out, and after the review has gone on: one rejection."""
    w = race.w
    target, (hand,) = work(race)
    twins = [rejects(race, hand, target, f"twin{n}", key="k") for n in range(3)]
    messengers(race)
    race.run()
    assert answers(twins) == {200: 3}
    assert [s.replayed for s in twins].count(False) == 1
    (retry,) = {s.reply.body["retry"]["id"] for s in twins}
    rest(race)
    Hand(race, retry, "maker").take().step("complete")
    w.pump()
    again = w.ok(*rejection(hand, target), token=hand.token, key="k")
    assert again["retry"]["id"] == retry
    assert told(race, hand.job)["job.rejected"] == 1


def a_shared_retry_that_moves(race: Race) -> None:
    """The second reviewer joins a retry that completes, fails, comes back or is cancelled meanwhile."""
    w = race.w
    target, (first, second) = work(race, 2)
    retry = w.ok(*rejection(first, target), token=first.token)["retry"]["id"]
    w.pump()
    maker = Hand(race, retry, "maker").take()
    if race.rng.random() < 0.4:
        maker.step(race.rng.choice(["complete", "fail", "cancel"]))
    sent = rejects(race, second, target)
    maker.does(race.rng.choice([*STORIES, ("restart", "complete"), ("restart",)]))
    messengers(race, rounds=8)
    race.run()
    assert sent.status == 200, str(sent)
    rest(race)
    (one, two, end) = statuses(race, [first.job, second.job, retry])
    wanted = {"completed": "published", "failed": "failed", "cancelled": "cancelled"}.get(end, "pending")
    assert (one, two) == (wanted, wanted)


def reviews_of_retries(race: Race) -> None:
    """A chain of three: each retry is sent back, by one or by the other; the fourth time the budget is spent."""
    w = race.w
    target, hands = work(race, 2, max_retries=3)
    makers = team(race, 1, name="maker")

    def review(hand: Hand) -> None:
        for _ in range(5):
            if hand.step("claim").status != 200:
                continue
            ups = [up["id"] for up in w.get(hand.job)["upstream"] if up["state"] != "replaced"]
            post(
                w,
                f"P/jobs/{hand.job}/reject",
                {"fence": hand.fence, "target": ups[-1], **REASON},
                token=hand.token,
            )

    def make() -> None:
        for _ in range(6):
            claim = w.call("POST", "P/claims", {"roles": ["developer"]}, token=makers[0])
            if claim.status == 200 and claim.body["job"]:
                Hand(race, claim.body["job"]["id"], makers[0], claim.body["claim"]["fence"]).step("complete")

    for hand in hands:
        w.ok(*rejection(hand, target), token=hand.token) if race.rng.random() < 0.7 else hand.step("release")
    for hand in hands:
        race.does(hand.token, lambda hand=hand: review(hand))
    race.does("makers", make)
    messengers(race, rounds=16, chaos=False)
    race.run()
    rest(race)
    refused = {s.code for s in race.record if s.path.endswith("/reject")}
    assert refused <= {None, "retries_spent", "wrong_state", "lease_lost"}
    assert told(race, target)["job.reopened"] <= 2


def a_rejection_and_other_downstreams(race: Race) -> None:
    """Others wait for the target, are linked to it and claimed while it is sent back: they keep what they had."""
    w = race.w
    target, (hand,) = work(race)
    below = w.job(blocked_by=[target])
    free = w.job()
    sent = rejects(race, hand, target)
    link(race, free, target)
    link(race, below, hand.job)
    Hand(race, below).does(["claim"])
    messengers(race)
    race.run()
    assert sent.status == 200
    rest(race)
    assert statuses(race, [free]) == ["published"]


def a_circle_through_a_retry(race: Race) -> None:
    """The retry is told to wait for the review that waits for it, or is about to: one of the two is refused."""
    w = race.w
    target, (first, second) = work(race, 2)
    retry = w.ok(*rejection(first, target), token=first.token)["retry"]["id"]
    w.pump()
    sent = rejects(race, second, target)
    linked = link(race, retry, race.rng.choice([first.job, second.job]), token="owner")
    messengers(race)
    race.run()
    assert answers([sent, linked]) in ({200: 1, "cycle": 1},)


def reviews_in_spite_of_deaths(race: Race) -> None:
    """Processes die on the way; who has a key asks again."""
    w = race.w
    target, hands = work(race, 2)
    race.trouble = 0.04
    for hand in hands:
        _, path, body = rejection(hand, target)
        race.does(hand.token, lambda p=path, b=body, t=hand.token: post(w, p, b, token=t, key="k") and None)
    other = w.job()
    race.does("link", lambda: post(w, f"P/jobs/{other}/links", {"upstream": hands[0].job}, key="k") and None)
    messengers(race, rounds=8)
    race.run()
    race.trouble = 0
    rest(race)
    assert len([job for job in w.ok("GET", "P/jobs", token="owner")["items"] if job["retry_count"] == 1]) == 1
    assert statuses(race, [hand.job for hand in hands]) == ["pending"] * 2


SCENARIOS: list[Callable[[Race], None]] = [
    links_round_a_circle,
    link_against_claim,
    link_while_the_upstream_ends,
    link_and_creation,
    a_refused_twin_leaves_no_link,
    reviewers_of_one_target,
    a_spent_budget,
    reject_against_the_end_of_the_review,
    twins_of_a_rejection,
    a_shared_retry_that_moves,
    reviews_of_retries,
    a_rejection_and_other_downstreams,
    a_circle_through_a_retry,
    reviews_in_spite_of_deaths,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 6)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 60)
