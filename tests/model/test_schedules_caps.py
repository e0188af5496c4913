"""Races for claims under caps: never more live than a cap allows, and nothing that has ended takes up a slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.hands import answers, post, rest, team
from tests.sim.race import Race, explore
from tests.sim.requests_caps import cap
from tests.sim.watch_caps import Watch
from tests.sim.world import Reply

from interlock.domain.lifecycle import ENDED

CLAIMANTS = 32
CAPS = (1, 3, 5)
SCOPES = ("agent", "role", "project")
REASON = {"reason": "r"}


def watched(race: Race, claims: dict[str, int], agent: str = "") -> Watch:
    """The race with these caps, and watched."""
    watch = Watch(race)
    for kind, number in claims.items():
        cap(race.w, kind, number, agent)
    return watch


def claimants(race: Race, kind: str, claims: int, count: int = CLAIMANTS) -> tuple[Watch, list[str]]:
    """So many callers under one cap, by token: one agent in many sessions where the cap is an agent's."""
    agent = race.w.enrol("solo", ("developer", "qa"))
    watch = watched(race, {kind: claims}, agent)
    return watch, ["solo"] * count if kind == "agent" else team(race, count, ("developer", "qa"))


def everybody_claims(kind: str, claims: int) -> Callable[[Race], None]:
    """Everybody wants a job of its own, at once: as many get it as the cap allows, exactly."""

    def each_its_own(race: Race) -> None:
        watch, tokens = claimants(race, kind, claims)
        jobs = [race.w.job() for _ in tokens]
        sent = [
            race.calls(f"claimant{n}", "POST", f"P/jobs/{job}/claim", {}, token=token)
            for n, (job, token) in enumerate(zip(jobs, tokens, strict=True))
        ]
        race.run()
        assert answers(sent) == {200: claims, "cap_reached": CLAIMANTS - claims}
        assert watch.claims == claims
        nothing_leaks(race, watch)

    return each_its_own


def everybody_asks(kind: str, claims: int) -> Callable[[Race], None]:
    """The same with claim-next: who lost a slot tries again, and nobody gets two."""

    def whatever_there_is(race: Race) -> None:
        watch, tokens = claimants(race, kind, claims)
        for _ in range(8):
            race.w.job()
        sent = [
            race.calls(f"claimant{n}", "POST", "P/claims", {"roles": ["developer"]}, token=token)
            for n, token in enumerate(tokens)
        ]
        race.run()
        assert answers(sent) == {200: CLAIMANTS}
        taken = [s.reply.body["job"]["id"] for s in sent if s.reply.body["job"]]
        assert len(taken) == len(set(taken)) == claims
        skipped = [s.reply.body["skipped"] for s in sent if not s.reply.body["job"]]
        assert all("cap_reached" in found for found in skipped), skipped
        nothing_leaks(race, watch)

    return whatever_there_is


class Worker:
    """Somebody who claims, works, loses jobs and comes back, whatever the answers are."""

    def __init__(self, race: Race, token: str, jobs: list[str]) -> None:
        self.race, self.w, self.rng, self.token, self.jobs = race, race.w, race.rng, token, jobs
        self.held: dict[str, int] = {}

    def work(self, actions: int) -> None:
        for _ in range(actions):
            if self.held and self.rng.random() < 0.6:
                self._on_a_claim()
            elif self.rng.random() < 0.6:
                self._learn(self._send("P/claims", {"roles": ["developer"]}))
            else:
                self._learn(self._send(f"P/jobs/{self.rng.choice(self.jobs)}/claim", {}))

    def _on_a_claim(self) -> None:
        job = self.rng.choice(sorted(self.held))
        under = {"fence": self.held[job]}
        verb, body = self.rng.choice(
            (
                ("complete", under),
                ("release", under),
                ("release", under),
                ("fail", {**under, **REASON}),
                ("restart", {}),
                ("restart", {}),
                ("block", {**under, **REASON}),
                ("unblock", {**under, **REASON}),
                ("resume", under),
                ("heartbeat", {}),
            )
        )
        if verb == "heartbeat":
            self.w.call("POST", "P/heartbeat", {"jobs": [{"id": job, **under}]}, token=self.token)
        else:
            self._learn(self._send(f"P/jobs/{job}/{verb}", body))

    def _send(self, path: str, body: Any) -> Reply:
        key = f"k{self.rng.randrange(1 << 40)}" if self.rng.random() < 0.5 else None
        more = {"token": self.token, "key": key}
        return post(self.w, path, body, **more) if key else self.w.call("POST", path, body, **more)

    def _learn(self, reply: Reply) -> None:
        if reply.status == 200 and reply.body.get("claim"):
            self.held[reply.body["job"]["id"]] = reply.body["claim"]["fence"]


def a_day(
    race: Race,
    *,
    workers: int,
    actions: int,
    claims: Callable[[], int],
    changes: int = 0,
    chaos: bool = False,
) -> Watch:
    """Workers under every cap, leases that lapse, and an owner who stops jobs, and changes caps if asked to."""
    w, rng = race.w, race.rng
    crowd = team(race, 4, ("developer", "qa"))
    ids = {name: w.ok("GET", "P/me", token=name)["actor"]["id"] for name in crowd}
    watch = watched(race, {kind: claims() for kind in ("role", "project")})
    for name in crowd:
        cap(w, "agent", claims(), ids[name])
    jobs = [
        w.job(lease_seconds=30, max_retries=rng.choice([1, 9]), on_expire=rng.choice(["publish", "publish", "fail", "ask"]))
        for _ in range(8)
    ]  # fmt: skip
    for n in range(workers):
        worker = Worker(race, crowd[n % len(crowd)], jobs)
        race.does(f"worker{n}", lambda worker=worker: worker.work(actions))

    def owner() -> None:
        for _ in range(changes):
            kind = rng.choice(SCOPES)
            body = {"max_claims": claims()}
            path = {
                "agent": f"P/agents/{rng.choice(list(ids.values()))}",
                "role": "P/roles/developer",
                "project": "P",
            }
            w.call("PATCH", path[kind], {"settings": body} if kind == "project" else body, token="owner")
            job = rng.choice(jobs)
            if rng.random() < 0.3:
                w.call("POST", f"P/jobs/{job}/stop", {**REASON, "then": "publish"}, token="owner")
            elif rng.random() < 0.3:
                w.call("POST", f"P/jobs/{job}/retry", {"max_retries": 20}, token="owner")

    race.does("owner", owner)
    race.clock(10, 15, 9, 30, 9, 33, 20)
    race.dispatcher(rounds=5, chaos=chaos)
    race.consumer(rounds=5, chaos=chaos)
    race.run()
    return watch


def under_one_cap(claims: int) -> Callable[[Race], None]:
    def many_hands(race: Race) -> None:
        watch = a_day(race, workers=CLAIMANTS, actions=4, claims=lambda: claims)
        assert watch.claims
        nothing_leaks(race, watch)

    return many_hands


def caps_that_change(race: Race) -> None:
    """Lowered and raised, with claims under way."""
    watch = a_day(race, workers=16, actions=8, claims=lambda: race.rng.choice((1, 2, 3, 5)), changes=12)
    assert watch.claims
    nothing_leaks(race, watch)


def processes_that_die(race: Race) -> None:
    """Between any two store calls; and the store fails, or carries a call out twice."""
    race.trouble = 0.02
    watch = a_day(race, workers=12, actions=6, claims=lambda: race.rng.choice((1, 3)), changes=4)
    race.trouble = 0.0
    nothing_leaks(race, watch)


def messages_that_misbehave(race: Race) -> None:
    """Timers come twice, late or never: a claim ends itself what stands in its way."""
    watch = a_day(race, workers=12, actions=8, claims=lambda: 2, chaos=True)
    nothing_leaks(race, watch)


def a_cap_that_is_lowered_while_it_is_full(race: Race) -> None:
    """Five are held when the cap becomes two: as they end, racers take over, and two are held at last."""
    w = race.w
    names = team(race, 12)
    watch = watched(race, {"project": 5})
    jobs = [w.job() for _ in range(12)]
    fences = [(job, w.claim(job, token=name)) for job, name in zip(jobs, names[:5], strict=False)]
    cap(w, "project", 2)
    race.rng.shuffle(fences)

    def end() -> None:
        for job, fence in fences[:4]:
            name = names[jobs.index(job)]
            w.call("POST", f"P/jobs/{job}/complete", {"fence": fence}, token=name)

    race.does("end", end)
    for name in names[5:]:
        race.does(
            name, lambda name=name: [w.call("POST", "P/claims", {}, token=name) for _ in range(3)] and None
        )
    race.run()
    assert 1 <= len(watch.held(("project", "default"))) <= 2
    nothing_leaks(race, watch)


def a_lapsed_holder_who_renews(race: Race) -> None:
    """It may, as long as nobody has ended its lease: then it has its slot, and whoever wanted it has none."""
    w = race.w
    names = team(race, 6)
    watch = watched(race, {"role": 1})
    late, *jobs = (w.job(lease_seconds=30, max_retries=9) for _ in range(6))
    fence = w.claim(late, token=names[0])
    w.clock.advance(33)
    race.calls("beat", "POST", "P/heartbeat", {"jobs": [{"id": late, "fence": fence}]}, token=names[0])
    sent = [
        race.calls(name, "POST", f"P/jobs/{job}/claim", {}, token=name)
        for name, job in zip(names[1:], jobs, strict=True)
    ]
    race.run()
    renewed = [job.id for job in watch.held(("role", "developer"))] == [late]
    assert answers(sent) == ({"cap_reached": 5} if renewed else {200: 1, "cap_reached": 4})
    nothing_leaks(race, watch)


def one_call_made_twice(race: Race) -> None:
    """Twins of a claim-next with a key, under a cap of one: both answers are of the one job."""
    w = race.w
    watch = watched(race, {"agent": 1, "project": 3})
    for _ in range(4):
        w.job()
    sent = [race.calls(f"twin{n}", "POST", "P/claims", {"roles": ["developer"]}, key="k") for n in range(4)]
    race.run()
    assert answers(sent) == {200: 4}
    assert watch.claims == 1
    taken = [s for s in sent if s.reply.body["job"]]
    assert len({s.reply.body["job"]["id"] for s in taken}) == 1
    first = next(s for s in taken if not s.replayed)
    assert all(s.replayed or s is first or s.ended <= first.ended for s in sent)
    nothing_leaks(race, watch)


def restarts_and_claims(race: Race) -> None:
    """Of failed jobs that their holders restart and new ones that are claimed no more live than the cap."""
    w = race.w
    names = team(race, 8)
    jobs = [w.job(max_retries=9) for _ in range(16)]
    for job, name in zip(jobs[:8], names, strict=True):
        w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job, token=name), **REASON}, token=name)
    watch = watched(race, {"role": 3, "project": 3})
    sent = [
        race.calls(f"{verb} {name}", "POST", f"P/jobs/{job}/{verb}", {}, token=name)
        for verb, some in (("restart", jobs[:8]), ("claim", jobs[8:]))
        for job, name in zip(some, names, strict=True)
    ]
    race.run()
    assert answers(sent) == {200: 3, "cap_reached": 13}
    nothing_leaks(race, watch)


def nothing_leaks(race: Race, watch: Watch) -> None:
    """Once everything has ended, as many claims succeed as the caps allow, and not one more."""
    w = race.w
    assert watch.wrong == []
    rest(race)
    for job in oracle.memory(w).jobs:
        if job.status not in ENDED:
            w.ok("POST", f"P/jobs/{job.id}/cancel", REASON, token="owner")
    assert watch.wrong == []
    assert watch.held(("project", "default")) == []
    agent = w.enrol("last")
    project = w.ok("GET", "P", token="owner")["project"]["settings"]["max_claims"]
    roles = {role["key"]: role["max_claims"] for role in w.ok("GET", "P/roles", token="owner")["items"]}
    room = min(number for number in (project, roles["developer"], 7) if number is not None)
    for _ in range(room):
        w.claim(w.job(), token="last")
    if room < 7:
        assert w.call("POST", f"P/jobs/{w.job()}/claim", {}, token="last").code == "cap_reached"
    cap(w, "agent", 1, agent)
    if "solo" in w.agents:
        solo_has_room(race)


def solo_has_room(race: Race) -> None:
    w = race.w
    me = w.ok("GET", "P/me", token="solo")["actor"]["id"]
    limit = w.ok("GET", f"P/agents/{me}", token="owner")["agent"]["max_claims"]
    if limit is not None:
        for _ in range(limit):
            w.claim(w.job(), token="solo")
        assert w.call("POST", f"P/jobs/{w.job()}/claim", {}, token="solo").code == "cap_reached"


def _named(scenario: Callable[[Race], None], name: str) -> Callable[[Race], None]:
    scenario.__name__ = name
    return scenario


CROWDS = [
    _named(make(kind, claims), f"{make.__name__}_{kind}_{claims}")
    for make in (everybody_claims, everybody_asks)
    for kind in SCOPES
    for claims in CAPS
]
DAYS = [_named(under_one_cap(claims), f"under_caps_of_{claims}") for claims in CAPS] + [
    caps_that_change,
    processes_that_die,
    messages_that_misbehave,
]
SMALL: list[Any] = [
    a_cap_that_is_lowered_while_it_is_full,
    a_lapsed_holder_who_renews,
    one_call_made_twice,
    restarts_and_claims,
]


@pytest.mark.parametrize("scenario", [*CROWDS, *DAYS], ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 2, lag=scenario in DAYS)


@pytest.mark.parametrize("scenario", SMALL, ids=lambda s: s.__name__)
def test_small_schedules(scenario: Any) -> None:
    explore(scenario, 5, lag=False)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*CROWDS, *DAYS], ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 30, lag=scenario in DAYS)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SMALL, ids=lambda s: s.__name__)
def test_many_small_schedules(scenario: Any) -> None:
    explore(scenario, 150, lag=False)
