"""`interlock events --follow` and `--ring`: every event once, however late its row becomes visible."""

import json
import random

import pytest
from tests.unit.cli_stub import Stub, cli, problem, serving

from interlock.cli import following, ring
from interlock.cli.client import RefusedError, UnreachableError
from interlock.cli.exits import CommandError
from interlock.cli.following import Follower

PAGE = 7
"""Events on a page of the stub, whatever is asked for."""


def event(number, **more):
    return {
        "seq": number % 5 + 1,
        "entity": f"job/job_{number // 5}",
        "type": "job.created",
        "actor": {"kind": "agent", "id": "agt_1", "label": "ada"},
        "at": "2026-11-30T21:00:00.000Z",
        "from": None,
        "to": "published",
        "data": {"summary": f"event {number}"},
        **more,
    }


class Feed:
    """A feed with a fake clock: a row has a place in it, and a time from which it is visible."""

    def __init__(self):
        self.now = 1_000.0
        self.rows = []
        self.asked = []
        self.trouble = None
        self.takes = 0.0
        """Seconds until a page is read."""
        self.travels = 0.0
        """Seconds until what was read arrives."""

    def write(self, late=0.0, **more):
        """One more event, written now, visible ``late`` seconds later."""
        made = event(len(self.rows), **more)
        self.rows.append((self.now + len(self.rows) / 1e6, self.now + late, made))
        return made

    def read(self, query):
        self.asked.append(dict(query))
        if self.trouble:
            raise self.trouble
        self.now += self.takes
        seen = sorted((row for row in self.rows if row[1] <= self.now), key=lambda row: row[0])
        if "last" in query:
            page, more = seen[-query["last"] :], False
        else:
            after = [row for row in seen if row[0] > float(query["after"])]
            page, more = after[:PAGE], len(after) > PAGE
        cursor = str(page[-1][0]) if page else query.get("after", "0")
        self.now += self.travels
        return {"items": [made for _, _, made in page], "next_cursor": cursor, "more": more}

    def follower(self, **more):
        return Follower(self.read, clock=lambda: self.now, **more)

    def rounds(self, follower, count):
        """What is told in so many rounds, a second apart."""
        told = []
        for _ in range(count):
            told += follower.round()
            self.now += 1
        return told


def test_the_last_come_first_then_what_is_new_and_nothing_twice():
    feed = Feed()
    old = [feed.write() for _ in range(30)]
    follower = feed.follower(last=3)
    assert feed.rounds(follower, 2) == old[-3:]
    new = [feed.write() for _ in range(2 * PAGE + 1)]
    assert feed.rounds(follower, 1) == new
    assert feed.rounds(follower, 40) == []


def test_none_of_the_last_can_be_asked_for():
    feed = Feed()
    feed.write()
    follower = feed.follower(last=0)
    assert feed.rounds(follower, 3) == []
    new = feed.write()
    assert feed.rounds(follower, 1) == [new]


def test_an_empty_feed_is_followed_from_its_first_event():
    feed = Feed()
    follower = feed.follower()
    assert feed.rounds(follower, 2) == []
    first = feed.write()
    assert feed.rounds(follower, 20) == [first]


def test_after_a_cursor_nothing_before_it_is_told():
    feed = Feed()
    feed.write()
    cursor = str(feed.rows[-1][0])
    new = [feed.write() for _ in range(PAGE + 2)]
    assert feed.rounds(feed.follower(after=cursor), 30) == new
    assert not any("last" in query for query in feed.asked)


@pytest.mark.parametrize("late", [0.5, 3.0, 9.5, 10.0])
@pytest.mark.parametrize("age", [1, 3, 60])
def test_a_row_that_becomes_visible_below_what_was_read_is_told(age, late):
    feed = Feed()
    feed.write()
    follower = feed.follower()
    told = feed.rounds(follower, age)
    hidden, *shown = feed.write(late=late), *(feed.write() for _ in range(2 * PAGE))
    told += feed.rounds(follower, 30)
    assert sorted(one["data"]["summary"] for one in told) == sorted(
        row[2]["data"]["summary"] for row in feed.rows
    )
    assert told.index(hidden) > told.index(shown[-1])


@pytest.mark.parametrize("silent", [5, 60, 3_600])
def test_a_late_row_is_told_after_the_bus_was_silent(silent):
    feed = Feed()
    follower = feed.follower()
    feed.rounds(follower, 30)
    hidden, shown = feed.write(late=4.0), feed.write()
    assert feed.rounds(follower, 1) == [shown]
    feed.now += silent
    assert feed.rounds(follower, 20) == [hidden]


def test_a_late_row_is_told_after_an_answer_that_was_long_under_way():
    feed = Feed()
    follower = feed.follower()
    feed.rounds(follower, 30)
    hidden, shown = feed.write(late=9.0), feed.write()
    assert feed.rounds(follower, 1) == [shown]
    feed.travels = 40.0
    assert feed.rounds(follower, 1) == []
    feed.travels = 0.0
    assert feed.rounds(follower, 20) == [hidden]


def test_a_round_that_breaks_off_is_made_up_for():
    feed = Feed()
    follower = feed.follower()
    feed.rounds(follower, 20)
    new = [feed.write() for _ in range(3 * PAGE)]
    going = follower.round()
    told = [next(going) for _ in range(PAGE)]
    feed.trouble = UnreachableError("http://bus", "reset", sent=True)
    with pytest.raises(CommandError):
        next(going)
    feed.trouble = None
    assert told + feed.rounds(follower, 20) == new


@pytest.mark.parametrize("seed", range(20))
def test_every_event_is_told_once_whatever_happens(seed):
    rng = random.Random(seed)
    feed = Feed()
    for _ in range(rng.randrange(30)):
        feed.write(late=rng.choice([0, 0, 3]))
    follower = feed.follower(last=1_000)
    told = []
    for _ in range(200):
        for _ in range(rng.choice([0, 0, 0, 1, 2, 30])):
            feed.write(late=rng.choice([0, 0, 0, rng.uniform(0, 10)]))
            feed.now += rng.choice([0, 0.2])
        feed.takes = rng.choice([0, 0, 0.3])
        try:
            for number, one in enumerate(follower.round()):
                told.append(one)
                if number == 5 and rng.random() < 0.3:
                    feed.trouble = UnreachableError("http://bus", "reset", sent=True)
        except UnreachableError:
            feed.now += rng.choice([1, 15, 300])
        feed.trouble = None
        feed.now += rng.choice([1, 1, 1, 8])
    feed.takes = 0
    told += feed.rounds(follower, 25)
    keys = [(one["entity"], one["seq"]) for one in told]
    assert len(keys) == len(set(keys)) == len(feed.rows)


def test_what_is_remembered_is_bounded_by_the_overlap():
    feed = Feed()
    follower = feed.follower()
    for _ in range(600):
        feed.write()
        feed.write()
        feed.rounds(follower, 1)
    assert len(follower._told) <= 2 * 3 * (following.OVERLAP + 1)
    assert len(follower._cursors) <= 4 * (following.OVERLAP + 1)
    feed.rounds(follower, 3 * round(following.OVERLAP))
    feed.rounds(follower, 2)
    assert not follower._told


def test_a_long_history_is_neither_remembered_nor_read_twice():
    feed = Feed()
    for _ in range(300 * PAGE):
        feed.write()
    feed.now += 60
    feed.takes = 0.5
    follower = feed.follower(after="0")
    largest = 0
    for number, _ in enumerate(follower.round()):
        largest = max(largest, len(follower._told)) if number % PAGE == 0 else largest
    assert largest < PAGE * 2 * (following.HISTORY + 2 * following.OVERLAP)
    asked = len(feed.asked)
    assert asked <= 301
    assert feed.rounds(follower, 1) == []
    assert len(feed.asked) - asked <= 2 * following.HISTORY + 2
    new = feed.write(late=5)
    assert feed.rounds(follower, 10) == [new]


class EnoughError(Exception):
    """Ends a following that would go on for ever."""


def followed(feed, script):
    """Follow while ``script`` says what happens at each pause; answers what was shown and the pauses."""
    shown, pauses, steps = [], [], iter(script)

    def sleep(seconds):
        pauses.append(seconds)
        feed.now += seconds
        step = next(steps, None)
        if step is None:
            raise EnoughError
        step(feed)

    with pytest.raises(EnoughError):
        following.follow(feed.follower(), shown.append, sleep)
    return shown, pauses


def fails(error):
    def step(feed):
        feed.trouble = error

    return step


def answers(feed):
    feed.trouble = None
    feed.write()


TROUBLES = {
    "unreachable": UnreachableError("http://bus", "connection refused", sent=False),
    "unavailable": RefusedError(*problem(503, "unavailable")),
    "throttled": RefusedError(*problem(429, "throttled")),
}


@pytest.mark.parametrize("trouble", sorted(TROUBLES))
def test_a_bus_that_does_not_answer_is_asked_again_ever_more_slowly(trouble, capsys):
    feed = Feed()
    first = feed.write()
    still = [lambda _: None] * 6
    shown, pauses = followed(feed, [fails(TROUBLES[trouble]), *still, answers])
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 1.0]
    assert shown == [first, feed.rows[-1][2]]
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 2, notes
    assert "asking again" in notes[0]
    assert "answers again" in notes[1]


def test_a_bus_that_says_how_long_it_needs_is_given_the_time():
    feed = Feed()
    busy = RefusedError(*problem(429, "throttled"), retry_after=90.0)
    assert followed(feed, [fails(busy), answers])[1] == [1.0, 90.0, 1.0]


def test_a_bus_that_is_not_there_yet_is_waited_for(capsys):
    feed = Feed()
    feed.trouble = TROUBLES["unreachable"]
    shown, _ = followed(feed, [answers])
    assert shown == [feed.rows[0][2]]


def test_a_credential_that_ends_ends_it():
    feed = Feed()
    feed.trouble = RefusedError(*problem(401, "token_revoked"))

    def sleep(_):
        raise EnoughError

    with pytest.raises(RefusedError, match="token_revoked"):
        following.follow(feed.follower(), print, sleep)


class Served:
    """The stub feed over HTTP; after some calls the credential has ended."""

    def __init__(self, calls, late=()):
        self.calls = calls
        self.events = [event(number) for number in range(4)]
        self.late = set(late)

    def __call__(self, asked):
        self.calls -= 1
        if self.calls < 0:
            return problem(401, "token_revoked")
        shown = [one for number, one in enumerate(self.events) if number not in self.late]
        self.late = set()
        return 200, {"items": shown, "next_cursor": "c1", "more": False}


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(following, "PAUSE", 0.01)


def test_following_prints_ndjson_until_it_is_refused(hasty):
    with serving(Stub(Served(6, late=[1]))) as stub:
        ended = cli("events", "--follow", "--json", url=stub.url)
    *told, refusal = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 5
    assert [one["data"]["summary"] for one in told] == ["event 0", "event 2", "event 3", "event 1"]
    assert refusal["code"] == "token_revoked"
    assert stub.asked[0].query == {"last": ["1000"]}
    assert {"after": ["c1"], "limit": ["1000"]} in [one.query for one in stub.asked]


def test_following_prints_lines_for_people(hasty):
    with serving(Stub(Served(1))) as stub:
        ended = cli("events", "--follow", "--last", "1", url=stub.url)
    (line,) = ended.out.splitlines()
    assert "job/job_0 #4 job.created – → published by ada" in line


@pytest.mark.parametrize(
    "args", [("--limit", "5"), ("--last", "5", "--after", "c"), ("--last", "1001"), ("--last", "-1")]
)
def test_what_makes_no_sense_with_follow_is_usage(args):
    ended = cli("events", "--follow", *args, url="http://127.0.0.1:9")
    assert (ended.code, ended.out) == (2, "")


def test_the_ring_is_a_json_line_an_event():
    with serving(Stub(Served(1))) as stub:
        ended = cli("events", "--ring", url=stub.url)
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert lines[0] == {
        "ts": "2026-11-30T21:00:00.000Z",
        "tenant": "default",
        "worker": "ada",
        "level": "info",
        "msg": "job created, published: event 0",
        "ticket": "job_0",
    }
    assert len(lines) == 4


def test_the_ring_can_be_followed(hasty):
    with serving(Stub(Served(3))) as stub:
        ended = cli("events", "--ring", "--follow", url=stub.url, INTERLOCK_PROJECT="blue")
    assert ended.code == 5
    assert [json.loads(line)["tenant"] for line in ended.out.splitlines()] == ["blue"] * 4


@pytest.mark.parametrize(
    ("kind", "before", "after", "level"),
    [
        ("job.claimed", "published", "in_progress", "info"),
        ("job.completed", "in_progress", "completed", "info"),
        ("job.lease_expired", "in_progress", "published", "warn"),
        ("job.lease_expired", "in_progress", "failed", "error"),
        ("job.failed", "in_progress", "failed", "error"),
        ("job.updated", "failed", "failed", "info"),
        ("job.blocked", "in_progress", "blocked", "warn"),
        ("agent.stale", None, None, "warn"),
        ("agent.back", None, None, "info"),
        ("custom.failed", None, None, "info"),
    ],
)
def test_the_level_follows_from_what_happened(kind, before, after, level):
    made = ring.line(event(0, type=kind, **{"from": before, "to": after}), "default")
    assert made["level"] == level


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"type": "job.failed", "from": "in_progress", "to": "failed", "data": {"reason": "exit code 3"}},
         "job failed, in_progress to failed: exit code 3"),
        ({"type": "job.lease_expired", "from": "in_progress", "to": "published", "data": {}},
         "job lease expired, in_progress to published"),
        ({"type": "job.updated", "from": "published", "to": "published", "data": {"changes": {}}}, "job updated"),
        ({"type": "custom.build_done", "from": None, "to": None, "data": {"reason": 7}}, "custom build done"),
        ({"type": "job.blocked", "from": None, "to": None, "data": {"reason": "x" * 999}},
         "job blocked: " + "x" * 200),
    ],
)  # fmt: skip
def test_the_message_says_what_happened_and_why(more, message):
    assert ring.line(event(0, **more), "default")["msg"] == message


def test_an_event_about_no_job_has_no_ticket_and_a_segment_is_named():
    stale = event(0, type="agent.stale", entity="agent/agt_1", data={"segment": 2}, to=None)
    made = ring.line(stale, "default")
    assert (made["ticket"], made["segment"]) == (None, 2)
    assert made["msg"] == "agent stale (agent/agt_1)"


def test_text_of_agents_is_data_in_the_ring(capsys):
    hostile = event(
        0, data={"reason": "\x1b[2J\u202e\nboo"}, actor={"kind": "agent", "id": "a", "label": "\x1b]0;"}
    )
    with serving(Stub(lambda _: (200, {"items": [hostile], "next_cursor": "c", "more": False}))) as stub:
        ended = cli("events", "--ring", url=stub.url)
    (line,) = ended.out.splitlines()
    assert line.isascii()
    assert "\x1b" not in line
    assert json.loads(line)["msg"].endswith("\x1b[2J\u202e\nboo")
