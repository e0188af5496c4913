"""`interlock job ask`, `decisions`, `decide` and their neighbours: waiting for an answer, lines to type, misuse."""

import json
import shlex

import pytest
from tests.unit.cli_stub import AGENT, Stub, cli, problem, serving
from tests.unit.test_cli_commands import ANSWERS, BROADCAST, DECISION, JOB, WORKER, bus

from interlock.cli import asked
from interlock.edges.operations import OPERATIONS

OPEN = {
    **DECISION,
    "prompt": "which licence?",
    "options": ["MIT", "Apache 2.0"],
    "answer": None,
    "data": None,
    "answered_by": None,
}
ASK = ("job", "ask", "job_1", "--fence", "4", "--prompt", "which licence?", "--blocker", "b", "--risk", "r")  # fmt: skip
RESUMED = {"job": {**JOB, "status": "in_progress"}, "claim": {"fence": 4, "expires_in": 9}}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("interlock.cli.decisions._FIRST", 0.01)


def answered(*states, job=None):
    """A bus whose decision goes through these states, one for each look at it."""
    left = list(states)

    def answer(asked):
        if asked.path.endswith("/resume"):
            return 200, RESUMED
        state = left.pop(0) if len(left) > 1 else left[0]
        said = {"answer": "MIT"} if state == "answered" else {}
        return 201, {"decision": {**OPEN, "state": state, **said}}

    return answer


@pytest.mark.parametrize(
    ("state", "code"),
    [("answered", 0), ("withdrawn", 1), ("expired", 1)],
    ids=["answered", "withdrawn", "expired"],
)
def test_asking_may_wait_until_it_is_closed(state, code):
    with serving(Stub(answered("open", "open", "open", state))) as stub:
        ended = cli(*ASK, "--until-answered", "--json", url=stub.url)
    assert ended.code == code
    assert ended.document["decision"]["state"] == state
    assert [one.method for one in stub.asked] == ["POST", "GET", "GET", "GET"]
    assert stub.asked[-1].path.endswith("/decisions/dec_1_2")
    assert "interlock decide dec_1_2 MIT\n" in ended.err
    assert "interlock decide dec_1_2 'Apache 2.0'\n" in ended.err


def test_without_waiting_it_prints_the_open_decision_at_once():
    with serving(Stub(answered("open"))) as stub:
        ended = cli(*ASK, "--json", url=stub.url)
    assert (ended.code, ended.err) == (0, "")
    assert ended.document["decision"]["state"] == "open"
    assert len(stub.asked) == 1


def test_nobody_answers_in_time():
    with serving(Stub(answered("open"))) as stub:
        ended = cli(*ASK, "--until-answered", "--timeout", "0.1", "--resume", "--json", url=stub.url)
    assert ended.code == 75
    assert ended.document["decision"]["state"] == "open"
    assert "nobody has answered within 0.1 s" in ended.err
    assert not stub.of("/resume")


@pytest.mark.parametrize(
    ("state", "resumes"),
    [("answered", True), ("withdrawn", False), ("expired", False)],
    ids=["answered", "withdrawn", "expired"],
)
def test_an_answer_resumes_the_job_when_that_is_asked_for(state, resumes):
    with serving(Stub(answered("open", state))) as stub:
        ended = cli(*ASK, "--until-answered", "--resume", "--json", url=stub.url)
    assert [one.body for one in stub.of("/resume")] == ([{"fence": 4}] if resumes else [])
    assert ended.document["decision"]["state"] == state
    assert ("claim" in ended.document) is resumes


@pytest.mark.parametrize(
    ("answer", "text"),
    [("MIT", "MIT"), ("a\x1bb", "a\\u001bb"), ({"n": 1}, '{"n": 1}'), (3, "3"), (None, "–")],
    ids=range(5),
)
def test_a_script_may_ask_for_nothing_but_the_answer(answer, text):
    closed = {"decision": {**OPEN, "state": "answered", "answer": answer}}
    with serving(Stub(lambda _: (200, closed))) as stub:
        ended = cli(*ASK, "--until-answered", "--answer-only", "--no-wait", url=stub.url)
        document = cli(
            *ASK, "--until-answered", "--answer-only", "--no-wait", "--json", url=stub.url
        ).document
    assert (ended.code, ended.out) == (0, f"{text}\n")
    assert document == {"answer": answer}


def test_without_an_answer_a_script_gets_nothing():
    with serving(Stub(answered("expired"))) as stub:
        ended = cli(*ASK, "--until-answered", "--answer-only", url=stub.url)
    assert (ended.code, ended.out) == (1, "")


def test_an_answer_that_does_not_resume_says_how_to_go_on():
    with serving(Stub(answered("answered"))) as stub:
        assert "interlock job resume job_1" in cli(*ASK, "--until-answered", url=stub.url).err
        assert "resume" not in cli(*ASK, "--until-answered", "--no-wait", url=stub.url).err


def test_waiting_asks_as_the_agent_where_an_owner_s_token_is_at_hand_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    waits = answered("open", "answered")

    def answer(asked):
        return waits(asked) if len(stub.asked) < 4 else bus(asked)

    with serving(Stub(answer)) as stub:
        (tmp_path / ".interlock").mkdir()
        credentials = {
            "url": stub.url,
            "project": "default",
            "owner_token": "il_own_default.own_1.s",
            "agent_token": AGENT,
        }
        (tmp_path / ".interlock" / "credentials.json").write_text(json.dumps(credentials))
        assert cli(*ASK, "--until-answered", "--resume", token=None).code == 0
        cli("decisions", token=None)
        cli("decide", "dec_1_2", "MIT", token=None)
    assert [one.token == AGENT for one in stub.asked] == [True, True, True, False, False]


def test_a_workers_command_asks_without_naming_the_fence():
    inside = {"INTERLOCK_JOB": "job_1", "INTERLOCK_FENCE": "9"}
    with serving(Stub(bus)) as stub:
        assert cli("job", "ask", "job_1", "--prompt", "p", "--kind", "gate", url=stub.url, **inside).code == 0
        assert cli("job", "ask", "job_2", "--prompt", "p", "--kind", "gate", url=stub.url, **inside).code == 2
        cli("heartbeat", "--job", "job_1", "--usage", '{"usd": 1}', url=stub.url, **inside)
    assert stub.asked[0].body["fence"] == 9
    assert stub.asked[1].body == {"jobs": [{"id": "job_1", "fence": 9, "usage": {"usd": 1}}]}


@pytest.mark.parametrize(
    ("status", "code", "ends"),
    [(409, "decision_closed", 4), (409, "subject_changed", 4), (403, "self_answer", 5), (422, "invalid", 1), (404, "not_found", 1)],
    ids=["closed", "changed", "self", "invalid", "unknown"],
)  # fmt: skip
def test_a_refused_answer_ends_by_the_table(status, code, ends):
    with serving(Stub(lambda _: problem(status, code))) as stub:
        ended = cli("decide", "dec_1_2", "MIT", url=stub.url)
    assert ended.code == ends
    assert code in ended.err


MISUSED = {
    "no answer": ("decide", "dec_1"),
    "two answers": ("decide", "dec_1", "a", "--json-answer", "1"),
    "an answer and a withdrawal": ("decide", "dec_1", "a", "--withdraw"),
    "a withdrawal with data": ("decide", "dec_1", "--withdraw", "--usd", "1"),
    "no JSON": ("decide", "dec_1", "--json-answer", "{"),
    "a finding that is no object": ("decide", "dec_1", "a", "--finding", "3"),
    "data that is no object": ("decide", "dec_1", "a", "--data", "3"),
    "a list of one": ("decisions", "dec_1", "--state", "all"),
    "all of one": ("decisions", "dec_1", "--all"),
    "resume alone": (*ASK, "--resume"),
    "resume without waiting": (*ASK, "--until-answered", "--resume", "--no-wait"),
    "nothing but the answer, without waiting": (*ASK, "--answer-only"),
    "a schema that is no object": (*ASK, "--schema", "[]"),
    "nothing to tell": ("broadcast",),
    "a text and a withdrawal": ("broadcast", "x", "--withdraw", "brd_1"),
    "a withdrawal with roles": ("broadcast", "--withdraw", "brd_1", "--role", "qa"),
    "a budget given and taken": ("job", "edit", "job_1", "--no-budget", "--budget-usd", "1"),
    "a daily budget given and taken": ("role", "edit", "qa", "--no-daily-budget", "--daily-tokens", "1"),
    "usage of nothing": ("heartbeat", "--usage", "{}"),
    "usage of two": ("heartbeat", "--job", "a", "--job", "b", "--usage", "{}"),
    "less than nothing": ("job", "publish", "x", "--budget-usd", "-1"),
}  # fmt: skip


@pytest.mark.parametrize("args", MISUSED.values(), ids=list(MISUSED))
def test_misuse_is_2_and_nothing_is_sent(args):
    with serving(Stub(bus)) as stub:
        assert cli(*args, url=stub.url).code == 2
    assert stub.asked == []


def test_answers_may_come_from_a_file_or_standard_input(tmp_path):
    file = tmp_path / "answer.json"
    file.write_text('{"licence": "MIT"}')
    with serving(Stub(bus)) as stub:
        cli("decide", "dec_1", "--json-answer", f"@{file}", url=stub.url)
        cli("decide", "dec_1", "--json-answer", "-", url=stub.url, stdin="3")
        cli("decide", "dec_1", "--json-answer", "null", url=stub.url)
    assert [one.body for one in stub.asked] == [
        {"answer": {"licence": "MIT"}},
        {"answer": 3},
        {"answer": None},
    ]


LINES = [
    ({"kind": "approval", "options": None}, ["approve", "reject"]),
    ({"kind": "review", "options": None}, ["approve", "reject"]),
    ({"kind": "gate", "options": ["shipped", "held back"]}, ["shipped", "'held back'"]),
    ({"kind": "question", "options": None}, ["'YOUR ANSWER'"]),
    ({"kind": "question", "options": None, "schema": {"type": "integer"}}, ["--json-answer JSON"]),
    ({"kind": "question", "options": list("abcde")}, ["OPTION"]),
    ({"kind": "question", "cause": "budget", "options": ["raise", "stop", "cancel"]}, ["raise --usd N", "stop", "cancel"]),
    ({"kind": "question", "cause": "lapse", "options": ["publish", "fail", "cancel"]}, ["publish", "fail", "cancel"]),
    ({"kind": "question", "state": "answered"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "answers"), LINES, ids=range(len(LINES)))
def test_an_open_decision_says_what_to_type(changes, answers):
    found = {**OPEN, "schema": None, **changes}
    assert list(asked.next_lines(found)) == [f"interlock decide dec_1_2 {answer}" for answer in answers]


@pytest.mark.parametrize("option", ["; rm -rf ~", "$(id)", "`id`", "a'b", "--withdraw", "a\nb"])
def test_an_agents_option_is_one_word_of_the_line_to_type(option):
    (line,) = asked.next_lines({**OPEN, "options": [option]})
    words = shlex.split(line)
    assert words[:3] == ["interlock", "decide", "dec_1_2"]
    assert words[-1] == option.replace("\n", "\\n")
    assert len(words) == 4 + option.startswith("-")


def test_a_decision_and_what_it_moved():
    settled = {"decision": {**OPEN, "state": "answered", "answer": "MIT"}, "job": {**JOB, "summary": "notes"}}
    with serving(Stub(lambda _: (200, settled))) as stub:
        shown = cli("decide", "dec_1_2", "MIT", url=stub.url).out
    assert "answer      MIT" in shown
    assert "job_1  in_progress  notes" in shown
    assert "type" not in shown


def test_attention_says_how_to_read_a_decision():
    with serving(Stub(bus)) as stub:
        shown = cli("attention", url=stub.url).out
    assert "interlock decisions " in shown


@pytest.mark.parametrize(("decision", "said"), [("dec_1\x1b", True), (None, False)], ids=["asked", "blocked"])
def test_waiting_for_a_job_ends_with_the_decision_that_it_waits_for(decision, said):
    blocked = {**JOB, "status": "blocked", "decision": decision}
    with serving(Stub(lambda _: (200, {"job": blocked}))) as stub:
        ended = cli("job", "wait", "job_1", "--json", url=stub.url)
    assert ended.code == 6
    assert ("interlock decisions dec_1\\u001b\n" in ended.err) is said


def test_workers_say_when_they_were_seen_and_what_they_hold():
    plain = {
        **WORKER,
        "label": "ada",
        "state": "idle",
        "seconds_since_seen": None,
        "holds": [],
        "holds_more": False,
        "stop": None,
    }
    page = {"items": [{**WORKER, "stop": None}, plain, WORKER], "next_cursor": None}
    with serving(Stub(lambda _: (200, page))) as stub:
        _, stale, idle, stopped = cli("workers", url=stub.url).out.splitlines()
    assert "stale" in stale
    assert "2 h ago" in stale
    assert "job_1 (in_progress)" in stale
    assert "never" in idle
    assert "stopped: " in stopped


def test_many_held_jobs_are_counted():
    holds = [{**WORKER["holds"][0], "job": f"job_{n}"} for n in range(5)]
    page = {"items": [{**WORKER, "holds": holds, "holds_more": False}], "next_cursor": None}
    with serving(Stub(lambda _: (200, page))) as stub:
        shown = cli("workers", url=stub.url).out
    assert "job_2 (in_progress) and 2 more" in shown
    assert "job_3" not in shown


def test_what_was_used_is_shown_and_never_added_up():
    usage = {
        "reported": {"input_tokens": 1_200, "output_tokens": 0, "usd": 0.25, "seconds": 0},
        "metered": {"seconds": 61.5},
        "earlier": {"input_tokens": 10, "output_tokens": 0, "usd": 0, "seconds": 0},
        "model": None,
    }
    budget = {"tokens": 1_000, "usd": None, "seconds": None, "count": "reported", "spent": True}
    with serving(Stub(lambda _: (200, {"job": {**JOB, "usage": usage, "budget": budget}}))) as stub:
        shown = cli("job", "show", "job_1", url=stub.url).out
    assert (
        "1,200 input tokens, 0.25 usd reported; 61.5 seconds metered; 10 input tokens reported in earlier attempts"
        in shown
    )
    assert "1,000 tokens (reported), spent" in shown


def test_a_stopped_agent_is_told_how_it_goes_on():
    with serving(Stub(bus)) as stub:
        assert (
            "interlock resume --agent agt_1"
            in cli("agent", "stop", "agt_1", "--reason", "r", url=stub.url).out
        )


def test_the_stub_s_answers_have_the_fields_of_the_schemas():
    from interlock.edges.answers import schemas

    known = schemas()
    for name, value in (("DecisionShown", DECISION), ("WorkerShown", WORKER), ("BroadcastShown", BROADCAST)):
        assert set(value) == set(known[name]["properties"]), name
    assert {row.answer for row in OPERATIONS.values()} - ANSWERS.keys() == {"Document"}
