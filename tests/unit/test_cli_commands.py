"""Every command: what it sends, one JSON document or a compact text, and text from agents shown as data."""

import json

import pytest
from tests.unit.cli_stub import Stub, cli, problem, serving

from interlock.edges.operations import OPERATIONS

HOSTILE = "\x1b[31mred\x1b[0m [bold]x[/bold] \u202eevil\r\nline \ud800"
AROUND = {
    "upstream": [{"id": "job_0", "type": "blocks", "state": "replaced", "replaced_by": HOSTILE}, {"id": HOSTILE, "state": "open"}],
    "caused_by": {"upstreams": [HOSTILE], "root": HOSTILE}, "downstream": [HOSTILE], "downstream_more": True, "reopen_of": HOSTILE,
    "routing": [{"on": "failed", "role": HOSTILE, "summary": HOSTILE, "when": {"field": HOSTILE, "op": "eq", "value": HOSTILE}}],
}  # fmt: skip
ARTIFACT = {
    "id": "art_1",
    "type": "log",
    "uri": HOSTILE,
    "name": HOSTILE,
    "state": "verified",
    "metadata": {"x": HOSTILE},
}
JOB = {
    **AROUND, "id": "job_1", "status": "in_progress", "summary": HOSTILE, "role": "qa", "priority": 20, "assignee": "agt_1",
    "assignee_label": HOSTILE, "source": "own_1", "source_label": "o", "attempt": 1, "max_retries": 3, "fence": 4,
    "version": 5, "context": {"a": HOSTILE}, "constraints": [HOSTILE], "artifacts": [{"type": "log", "uri": HOSTILE}, ARTIFACT],
    "result": None, "blocked_reason": HOSTILE,
}  # fmt: skip
CLAIM = {"fence": 4, "expires_in": 90, "lease_seconds": 90}
EVENT = {
    "seq": 1,
    "at": "t",
    "type": "job.created",
    "entity": "job/job_1",
    "actor": {"kind": "owner", "id": "o", "label": HOSTILE},
    "from": None,
    "to": "published",
    "data": {"x": HOSTILE},
    "prev": "0",
    "digest": "1",
}
IDENTITY = {
    "id": "agt_1",
    "label": HOSTILE,
    "roles": ["qa"],
    "rights": "owner",
    "tokens": [{"id": "tok_1", "live": True}],
    "tool_family": None,
}
PROJECT = {"id": "default", "title": HOSTILE, "settings": {}, "version": 1, "digest": "d"}
ROLE = {"key": "qa", "label": HOSTILE, "capabilities": ["x"]}
COUNT = {"count": 1, "more": True}
STATS = {
    "stats": {"published": {"qa": {**COUNT, "oldest_age_seconds": 7_300}}, "in_progress": COUNT},
    "counted_up_to": 1_000,
}
ME = {
    "actor": {"kind": "agent", "id": "agt_1", "label": HOSTILE},
    "roles": ["qa"],
    "project": "default",
    "claims": [{"job": "job_1", "status": "in_progress", "fence": 4, "expires_in": 9, "summary": HOSTILE}],
    "notices": [{"code": "broadcast", "id": "brd_1", "at": "t", "detail": HOSTILE}],
    "next_cursor": None,
}

DECISION = {
    "id": "dec_1_2", "job": "job_1", "kind": "question", "cause": "asked", "state": "open", "subject": {"job": "job_1", "rev": 1},
    "current": False, "wait": True, "prompt": HOSTILE, "blocker": HOSTILE, "risk": HOSTILE, "options": [HOSTILE, "b"], "schema": None,
    "roles": [HOSTILE], "asked_by": {"kind": "agent", "id": "agt_1", "label": HOSTILE}, "asked_at": "t", "expires_at": "t", "expires_in": 60,
    "answer": {"x": HOSTILE}, "note": HOSTILE, "findings": [{"file": HOSTILE, "line": 3, "kind": HOSTILE, "description": HOSTILE, "fix": HOSTILE}],
    "segment": None, "data": {"x": HOSTILE}, "answered_by": {"kind": "owner", "id": "own_1", "label": HOSTILE}, "answered_at": "t",
    "closed_by": None, "closed_at": None,
}  # fmt: skip
BROADCAST = {"id": "brd_1", "text": HOSTILE, "roles": [HOSTILE], "by": HOSTILE, "at": "t", "expires_at": "t"}
WORKER = {
    "agent": "agt_1", "label": HOSTILE, "roles": [HOSTILE], "state": "stale", "last_seen": "t", "seconds_since_seen": 7_300, "session": HOSTILE,
    "beats_missed": 3, "holds": [{"job": "job_1", "summary": HOSTILE, "role": "qa", "status": "in_progress", "fence": 4, "expires_in": 9}],
    "holds_more": True, "stale_since": "t", "stop": {"at": "t", "reason": HOSTILE, "then": "publish", "by": "own_1"},
}  # fmt: skip

ANSWERS = {
    "JobAnswer": {"job": JOB},
    "ClaimAnswer": {"job": JOB, "claim": CLAIM, "notices": []},
    "JobPage": {"items": [JOB], "next_cursor": "more\x1b"},
    "Timeline": {"items": [EVENT], "next_cursor": None, "version": 1, "digest": "1", "incomplete": True},
    "EventAnswer": {"event": EVENT, "job": JOB},
    "Explanation": {
        "claimable": False,
        "as": "agt_1",
        "reasons": [{"code": "paused", "detail": HOSTILE, "until": "t"}],
    },
    "ArtifactAnswer": {"artifact": ARTIFACT},
    "ArtifactAttached": {"artifact": ARTIFACT},
    "ArtifactRead": {"artifact": ARTIFACT, "download": {"url": HOSTILE, "expires_in": 9}},
    "HeartbeatAnswer": {
        "claims": [{"job": "job_1", "fence": 4, "expires_in": 9, "status": "in_progress"}],
        "notices": [{"code": "decision_answered", "job": "job_1", "decision": "dec_1_2", "answer": HOSTILE, "detail": HOSTILE}],
    },
    "Feed": {"items": [EVENT, EVENT], "next_cursor": "c", "more": False},
    "RoleAnswer": {"role": ROLE},
    "RolePage": {"items": [ROLE], "next_cursor": None},
    "AgentCreated": {"agent": IDENTITY, "token": "il_agt_x.y.z"},
    "AgentPage": {"items": [IDENTITY], "next_cursor": None},
    "AgentAnswer": {"agent": IDENTITY},
    "TokenCreated": {"id": "tok_2", "token": "il_agt_x.y.z"},
    "TokenRevoked": {"id": "tok_2", "revoked": True},
    "OwnerCreated": {"owner": IDENTITY, "token": "il_own_x.y.z"},
    "OwnerPage": {"items": [IDENTITY], "next_cursor": None},
    "OwnerAnswer": {"owner": IDENTITY},
    "ProjectAnswer": {"project": PROJECT},
    "ProjectPage": {"items": [PROJECT], "next_cursor": None},
    "Paused": {"paused": [{"target": "role:qa", "reason": HOSTILE}]},
    "Me": ME,
    "Stats": STATS,
    "AttentionPage": {
        "items": [
            {"kind": "dead_letters", "detail": HOSTILE, "since": None, "allowed": ["redrive"]},
            {"kind": "blocked", "detail": HOSTILE, "since": "t", "allowed": [HOSTILE], "job": "job_1", "summary": HOSTILE, "status": "blocked", "role": HOSTILE},
            {"kind": "decision", "detail": HOSTILE, "since": "t", "allowed": [HOSTILE], "job": "job_1", "summary": HOSTILE, "status": "blocked", "role": HOSTILE, "decision": HOSTILE},
        ],
        "next_cursor": "more\x1b",
    },
    "DecisionAnswer": {"decision": DECISION},
    "DecisionSettled": {"decision": {**DECISION, "state": "answered"}, "job": JOB},
    "DecisionPage": {"items": [DECISION], "next_cursor": "more\x1b"},
    "WorkerPage": {"items": [WORKER], "next_cursor": "more\x1b"},
    "BroadcastAnswer": {"broadcast": BROADCAST},
    "Repaired": {"repaired": "job/job_1"},
    "DeadLetters": {"queues": {"lease-dead": 1, "dispatch-dead": 0}, "total": 1},
    "Redriven": {"queue": "lease-dead", "redriven": 0, "failed": 0},
    "Health": {"status": "ok", "version": "1"},
    "Graph": {
        "nodes": [{"id": "job_0", "summary": HOSTILE, "status": "failed", "role": HOSTILE}, {**JOB, "status": HOSTILE}],
        "edges": [{"from": "job_0", "to": "job_1", "type": HOSTILE}],
        "truncated": True,
    },
    "ReopenContext": {
        "retry": "job_1", "original": "job_0", "role": "qa", "retry_count": 1, "max_retries": 3, "summary": HOSTILE,
        "constraints": [HOSTILE],
        "rejections": [{
            "reviewer": "job_2", "rejected_by": {"label": HOSTILE}, "rejected_at": "t", "reason": HOSTILE, "reason_truncated": True,
        }],
    },
    "Rejected": {"retry": JOB, "reviewer": JOB, "reason_truncated": False},
    "PlanAnswer": {"plan": "plan_1", "jobs": {HOSTILE: "job_1"}, "claimable": [HOSTILE], "pending": []},
}  # fmt: skip
PLAN = '{"jobs": [{"ref": "a"}]}'
F = ("--fence", "4")
R = ("--reason", "why")
U = ("--usage", '{"usd": 0.5, "input_tokens": 7}')
USED = {"usage": {"usd": 0.5, "input_tokens": 7}}
COMMANDS = [
    (("job", "publish", "do it", "--role", "qa", "--priority", "30", "--constraint", "a", "--constraint", "b", "--context", '{"k": 1}', "--requires", "log", "--max-retries", "0"), "jobs.create", {"summary": "do it", "role": "qa", "priority": 30, "constraints": ["a", "b"], "context": {"k": 1}, "requires": ["log"], "max_retries": 0}),
    (("job", "publish", "x", "--blocked-by", "job_1", "--blocked-by", "job_2", "--on-upstream-failure", "continue", "--no-independent", "--routing", '[{"role": "qa", "summary": "a"}]', "--routing", '{"role": "qa", "summary": "b"}'), "jobs.create", {"summary": "x", "blocked_by": ["job_1", "job_2"], "on_upstream_failure": "continue", "independent": False, "routing": [{"role": "qa", "summary": "a"}, {"role": "qa", "summary": "b"}]}),
    (("job", "publish", "x", "--on-expire", "ask", "--requires", "review", "--budget-usd", "2.5", "--budget-tokens", "1000"), "jobs.create", {"summary": "x", "on_expire": "ask", "requires": ["review"], "budget": {"usd": 2.5, "tokens": 1000}}),
    (("job", "publish", "x", "--budget-seconds", "60", "--budget-count", "metered"), "jobs.create", {"summary": "x", "budget": {"seconds": 60, "count": "metered"}}),
    (("job", "list", "--status", "failed", "--limit", "3"), "jobs.list", None),
    (("job", "show", "job_1"), "jobs.get", None),
    (("job", "edit", "job_1", "--summary", "s", "--priority", "high", "--if-match", '"v5"'), "jobs.edit", {"summary": "s", "priority": "high"}),
    (("job", "edit", "job_1", "--budget-tokens", "5", "--if-match", '"v5"'), "jobs.edit", {"budget": {"tokens": 5}}),
    (("job", "edit", "job_1", "--no-budget", "--if-match", '"v5"'), "jobs.edit", {"budget": None}),
    (("job", "events", "job_1"), "jobs.timeline", None),
    (("job", "record", "job_1", "custom.x", "--data", '{"a": null}'), "jobs.record", {"type": "custom.x", "data": {"a": None}}),
    (("job", "explain", "job_1"), "jobs.explain", None),
    (("job", "attach", "job_1", "--type", "log", "--uri", "u", "--checksum", "c", "--metadata", "{}", *F), "jobs.attach", {"fence": 4, "type": "log", "uri": "u", "checksum": "c", "metadata": {}}),
    (("job", "artifact", "job_1", "art_1"), "jobs.artifact", None),
    (("job", "verify", "job_1", "art_1", *F), "jobs.verify", {"fence": 4}),
    (("job", "link", "job_1", "job_0"), "jobs.link", {"type": "blocks", "upstream": "job_0"}),
    (("job", "graph", "job_1", "--depth", "3"), "jobs.graph", None),
    (("job", "reopen-context", "job_1"), "jobs.reopen_context", None),
    (("job", "reject", "job_1", "job_0", *F, *R), "claims.reject", {"fence": 4, "target": "job_0", "reason": "why"}),
    (("plan", "apply", "-"), "plans.create", {"jobs": [{"ref": "a"}], "dry_run": False}),
    (("plan", "check", "-"), "plans.create", {"jobs": [{"ref": "a"}], "dry_run": True}),
    (("job", "cancel", "job_1", *R), "jobs.cancel", {"reason": "why"}),
    (("job", "retry", "job_1", "--max-retries", "5"), "jobs.retry", {"max_retries": 5}),
    (("job", "stop", "job_1", *R, "--then", "fail"), "jobs.stop", {"reason": "why", "then": "fail"}),
    (("job", "next", "--role", "qa", "--session", "s", "--heartbeat", "5"), "claims.next", {"roles": ["qa"], "session": "s", "heartbeat_seconds": 5}),
    (("job", "claim", "job_1", "--lease", "60"), "claims.claim", {"lease_seconds": 60}),
    (("job", "complete", "job_1", *F, "--summary", "s", "--data", '{"ok": true}', "--artifact", '{"type": "t", "uri": "u"}'), "claims.complete", {"fence": 4, "result": {"summary": "s", "data": {"ok": True}, "artifacts": [{"type": "t", "uri": "u"}]}}),
    (("job", "complete", "job_1", *F, *U), "claims.complete", {"fence": 4, **USED}),
    (("job", "fail", "job_1", *F, *R, "--data", "{}", *U), "claims.fail", {"fence": 4, "reason": "why", "data": {}, **USED}),
    (("job", "block", "job_1", *F, *R, *U), "claims.block", {"fence": 4, "reason": "why", **USED}),
    (("job", "ask", "job_1", *F, "--prompt", "which?", "--blocker", "b", "--risk", "r", "--option", "x", "--option", "y", "--role", "qa", "--expires-in", "60"), "decisions.ask", {"fence": 4, "kind": "question", "prompt": "which?", "blocker": "b", "risk": "r", "options": ["x", "y"], "roles": ["qa"], "expires_in": 60}),
    (("job", "ask", "job_1", *F, "--prompt", "may it?", "--kind", "approval", "--no-wait"), "decisions.ask", {"fence": 4, "kind": "approval", "prompt": "may it?", "wait": False}),
    (("job", "ask", "job_1", *F, "--prompt", "p", "--schema", '{"type": "integer"}'), "decisions.ask", {"fence": 4, "kind": "question", "prompt": "p", "schema": {"type": "integer"}}),
    (("decisions", "--state", "all", "--job", "job_1", "--role", "qa"), "decisions.list", None),
    (("decisions", "dec_1_2"), "decisions.get", None),
    (("decide", "dec_1_2", "approve", "--note", "n", "--segment", "2", "--finding", '{"kind": "k", "description": "d"}', "--finding", '[{"kind": "l", "description": "e"}]'), "decisions.answer", {"answer": "approve", "note": "n", "segment": 2, "findings": [{"kind": "k", "description": "d"}, {"kind": "l", "description": "e"}]}),
    (("decide", "dec_1_2", "raise", "--usd", "5", "--data", '{"tokens": 9}'), "decisions.answer", {"answer": "raise", "data": {"tokens": 9, "usd": 5}}),
    (("decide", "dec_1_2", "--json-answer", "[1, null]"), "decisions.answer", {"answer": [1, None]}),
    (("decide", "dec_1_2", "--withdraw", "--note", "n"), "decisions.withdraw", {"note": "n"}),
    (("job", "unblock", "job_1", *R), "claims.unblock", {"reason": "why"}),
    (("job", "resume", "job_1", *F), "claims.resume", {"fence": 4}),
    (("job", "release", "job_1", *F, *U), "claims.release", {"fence": 4, **USED}),
    (("job", "restart", "job_1"), "claims.restart", {}),
    (("heartbeat", "--session", "s", "--job", "job_1"), "claims.heartbeat", {"session": "s", "jobs": [{"id": "job_1"}]}),
    (("heartbeat", "--job", "job_1", *U), "claims.heartbeat", {"jobs": [{"id": "job_1", **USED}]}),
    (("role", "add", "ops", "--max-claims", "2", "--daily-usd", "3", "--daily-tokens", "4", "--daily-seconds", "5", "--on-expire", "ask"), "roles.create", {"key": "ops", "label": "ops", "on_expire": "ask", "max_claims": 2, "daily_budget": {"usd": 3, "tokens": 4, "seconds": 5}}),
    (("role", "edit", "qa", "--max-claims", "0", "--no-daily-budget"), "roles.update", {"max_claims": None, "daily_budget": None}),
    (("role", "add", "qa", "--capability", "x", "--independent"), "roles.create", {"key": "qa", "label": "qa", "capabilities": ["x"], "independent": True}),
    (("role", "list"), "roles.list", None),
    (("role", "edit", "qa", "--on-expire", "fail"), "roles.update", {"on_expire": "fail"}),
    (("role", "edit", "qa", "--no-independent"), "roles.update", {"independent": False}),
    (("role", "delete", "qa"), "roles.delete", None),
    (("agent", "add", "a", "--role", "qa", "--tool-family", "x"), "agents.create", {"label": "a", "roles": ["qa"], "tool_family": "x"}),
    (("agent", "list"), "agents.list", None),
    (("agent", "show", "agt_1"), "agents.get", None),
    (("agent", "edit", "agt_1", "--label", "l"), "agents.update", {"label": "l"}),
    (("agent", "add", "a", "--role", "qa", "--max-claims", "1"), "agents.create", {"label": "a", "roles": ["qa"], "max_claims": 1}),
    (("agent", "edit", "agt_1", "--max-claims", "0"), "agents.update", {"max_claims": None}),
    (("agent", "stop", "agt_1", *R, "--then", "fail"), "agents.stop", {"reason": "why", "then": "fail"}),
    (("agent", "retire", "agt_1"), "agents.delete", None),
    (("agent", "token", "agt_1", "--name", "n", "--expires-in", "60"), "agents.token_create", {"name": "n", "expires_in": 60}),
    (("agent", "rotate", "agt_1", "tok_1", "--grace", "0"), "agents.token_rotate", {"grace_seconds": 0}),
    (("agent", "revoke", "agt_1", "tok_1"), "agents.token_revoke", None),
    (("owner", "add", "o", "--rights", "viewer"), "owners.create", {"label": "o", "rights": "viewer"}),
    (("owner", "list"), "owners.list", None),
    (("owner", "remove", "own_1"), "owners.delete", None),
    (("owner", "token", "own_1"), "owners.token_create", {}),
    (("owner", "rotate", "own_1", "tok_1"), "owners.token_rotate", {}),
    (("owner", "revoke", "own_1", "tok_1"), "owners.token_revoke", None),
    (("owner", "add", "o", "--installation"), "installation.owner_create", {"label": "o", "rights": "owner"}),
    (("owner", "list", "--installation"), "installation.owner_list", None),
    (("owner", "remove", "own_1", "--installation"), "installation.owner_delete", None),
    (("owner", "token", "own_1", "--installation"), "installation.token_create", {}),
    (("owner", "rotate", "own_1", "tok_1", "--installation"), "installation.token_rotate", {}),
    (("owner", "revoke", "own_1", "tok_1", "--installation"), "installation.token_revoke", None),
    (("project", "create", "p", "--title", "t", "--settings", '{"lease_seconds": 60}'), "projects.create", {"id": "p", "title": "t", "settings": {"lease_seconds": 60}}),
    (("project", "list"), "projects.list", None),
    (("project", "show"), "projects.get", None),
    (("project", "edit", "--title", "t"), "projects.update", {"title": "t"}),
    (("project", "create", "p", "--title", "t", "--daily-usd", "1"), "projects.create", {"id": "p", "title": "t", "settings": {"daily_budget": {"usd": 1}}}),
    (("project", "edit", "--settings", '{"lease_seconds": 60, "max_claims": 3}', "--max-claims", "9", "--no-daily-budget"), "projects.update", {"settings": {"lease_seconds": 60, "max_claims": 9, "daily_budget": None}}),
    (("broadcast", "stop at noon", "--role", "qa", "--expires-in", "60"), "projects.broadcast", {"text": "stop at noon", "roles": ["qa"], "expires_in": 60}),
    (("broadcast", "--withdraw", "brd_1"), "projects.unbroadcast", None),
    (("workers", "--limit", "3"), "system.workers", None),
    (("pause",), "projects.pause", {"project": True}),
    (("resume", "--role", "qa", *R), "projects.resume", {"role": "qa", "reason": "why"}),
    (("whoami",), "system.me", None),
    (("stats",), "system.stats", None),
    (("attention", "--limit", "3"), "system.attention", None),
    (("dead-letters", "list"), "system.dead_letters", None),
    (("dead-letters", "redrive", "--queue", "lease-dead"), "system.redrive", {"queue": "lease-dead"}),
]  # fmt: skip
STREAMS = {"ledger.feed"}
ELSEWHERE = {"system.health", "system.repair", "system.openapi", *STREAMS}
"""Called by `doctor` and `status`, streamed by `events`; the OpenAPI document is for programs."""


def matching(asked):
    """The operation that a request is."""
    for row in OPERATIONS.values():
        parts, wanted = asked.path.split("/"), row.path.split("/")
        same = len(parts) == len(wanted) and row.method == asked.method
        if same and all(
            want.startswith("{") or part == want for part, want in zip(parts, wanted, strict=True)
        ):
            return row
    raise AssertionError(f"{asked.method} {asked.path} is no operation")


def bus(asked):
    row = matching(asked)
    return (201 if row.created else 200), ANSWERS[row.answer], {"ETag": '"v5"'}


def test_every_operation_has_its_command():
    assert {operation for _, operation, _ in COMMANDS} == OPERATIONS.keys() - ELSEWHERE


@pytest.mark.parametrize(
    ("args", "operation", "body"), COMMANDS, ids=[operation for _, operation, _ in COMMANDS]
)
def test_a_command_is_one_call_and_one_document(args, operation, body):
    with serving(Stub(bus)) as stub:
        ended = cli(*args, "--json", url=stub.url, stdin=PLAN)
    assert (ended.code, ended.err) == (0, "")
    last = stub.asked[-1]
    assert matching(last).name == operation
    assert last.body == body
    assert bool(last.key) == OPERATIONS[operation].keyed
    if operation != "system.redrive":
        assert ended.document == ANSWERS[OPERATIONS[operation].answer]


@pytest.mark.parametrize(
    ("args", "operation", "body"), COMMANDS, ids=[operation for _, operation, _ in COMMANDS]
)
def test_what_a_person_sees_is_plain_and_obeys_nobody(args, operation, body):
    with serving(Stub(bus)) as stub:
        ended = cli(*args, url=stub.url, stdin=PLAN)
    assert ended.code == 0
    shown = ended.out + ended.err
    assert shown.strip()
    for active in ("\x1b", "\u202e", "\r", "\ud800"):
        assert active not in shown
    if HOSTILE[:4] in json.dumps(ANSWERS[OPERATIONS[operation].answer]):
        assert "[bold]x[/bold]" in shown
    assert max(map(len, ended.out.splitlines()), default=0) < 1_000


def test_help_is_the_operations_summary():
    assert OPERATIONS["claims.release"].summary in cli("job", "release", "--help", token=None).out


def test_events_are_a_stream_of_lines():
    with serving(Stub(bus)) as stub:
        ended = cli("events", "--last", "2", "--json", url=stub.url)
        text = cli("events", url=stub.url)
    assert [json.loads(line) for line in ended.out.splitlines()] == [EVENT, EVENT]
    assert stub.asked[0].query == {"last": ["2"]}
    assert "--after c" in ended.err
    assert "\x1b" not in text.out


@pytest.mark.parametrize("where", ["before", "after", "variable"])
def test_json_can_be_asked_for_in_three_ways(where):
    with serving(Stub(bus)) as stub:
        if where == "before":
            ended = cli("--json", "role", "list", url=stub.url)
        elif where == "after":
            ended = cli("role", "list", "--json", url=stub.url)
        else:
            ended = cli("role", "list", url=stub.url, INTERLOCK_JSON="1")
    assert ended.document == ANSWERS["RolePage"]


def test_an_edit_without_an_etag_reads_the_job_first():
    with serving(Stub(bus)) as stub:
        assert cli("job", "edit", "job_1", "--summary", "s", url=stub.url).code == 0
    assert [one.method for one in stub.asked] == ["GET", "PATCH"]
    assert stub.asked[1].headers["if-match"] == '"v5"'


def test_agents_and_owners_are_found_by_label():
    def answer(asked):
        if asked.path.endswith(("/agents", "/owners")):
            return 200, {
                "items": [
                    {**IDENTITY, "id": "agt_old", "label": "ada", "retired_at": "t"},
                    {**IDENTITY, "id": "agt_7", "label": "ada"},
                    {**IDENTITY, "id": "agt_8", "label": "twin"},
                    {**IDENTITY, "id": "agt_9", "label": "twin"},
                ],
                "next_cursor": None,
            }
        return bus(asked)

    with serving(Stub(answer)) as stub:
        assert cli("agent", "show", "ada", url=stub.url).code == 0
        assert stub.asked[-1].path.endswith("/agents/agt_7")
        assert cli("pause", "--agent", "ada", url=stub.url).code == 0
        assert stub.asked[-1].body == {"agent": "agt_7"}
        assert cli("agent", "show", "nobody", url=stub.url).code == 1
        twins = cli("agent", "show", "twin", url=stub.url)
    assert twins.code == 2
    assert "agt_8, agt_9" in twins.err


def test_a_body_comes_from_a_file_and_options_win(tmp_path):
    file = tmp_path / "job.json"
    file.write_text('{"summary": "from the file", "role": "qa", "deadline": null}')
    with serving(Stub(bus)) as stub:
        cli("job", "publish", "--file", str(file), "--role", "ops", url=stub.url)
        cli("job", "publish", "--file", "-", url=stub.url, stdin='{"summary": "piped"}')
        cli("job", "publish", "x", "--context", f"@{file}", url=stub.url)
    assert stub.asked[0].body == {"summary": "from the file", "role": "ops", "deadline": None}
    assert stub.asked[1].body == {"summary": "piped"}
    assert stub.asked[2].body["context"]["role"] == "qa"


def test_free_json_is_carried_exactly():
    text = '{"n": ' + "7" * 1_000 + ', "nul": "\\u0000", "lone": "\\ud800", "z": 1, "a": 2.5}'
    with serving(Stub(bus)) as stub:
        cli("job", "publish", "x", "--context", text, url=stub.url)
    assert stub.asked[0].body["context"] == json.loads(text)
    assert list(stub.asked[0].body["context"]) == ["n", "nul", "lone", "z", "a"]


def test_the_fence_of_a_workers_job_is_known_to_its_command():
    inside = {"INTERLOCK_JOB": "job_1", "INTERLOCK_FENCE": "9"}
    with serving(Stub(bus)) as stub:
        assert cli("job", "complete", "job_1", url=stub.url, **inside).code == 0
        assert cli("job", "complete", "job_2", url=stub.url, **inside).code == 2
        assert cli("job", "complete", "job_1", "--fence", "3", url=stub.url, **inside).code == 0
        assert cli("job", "reject", "job_1", "job_0", *R, url=stub.url, **inside).code == 0
        assert cli("job", "reject", "job_2", "job_0", *R, url=stub.url, **inside).code == 2
    assert [one.body["fence"] for one in stub.asked] == [9, 3, 9]


def test_all_pages_become_one_document():
    def answer(asked):
        last = "cursor" in asked.query
        return 200, {"items": [JOB], "next_cursor": None if last else "c"}

    with serving(Stub(answer)) as stub:
        found = cli("job", "list", "--all", "--json", url=stub.url).document
    assert len(found["items"]) == 2
    assert found["next_cursor"] is None


def test_nothing_to_claim_is_3_and_says_why():
    nothing = {"job": None, "claim": None, "poll_after_ms": 10, "skipped": {"paused": 2}}
    with serving(Stub(lambda _: (200, nothing))) as stub:
        text = cli("job", "next", url=stub.url)
        document = cli("job", "next", "--json", url=stub.url)
    assert (text.code, document.code) == (3, 3)
    assert "paused 2" in text.out
    assert document.document == nothing


def test_next_waits_for_work():
    answers = [{"job": None, "claim": None, "poll_after_ms": 10}] * 2 + [{"job": JOB, "claim": CLAIM}]
    with serving(Stub(lambda _: (200, answers.pop(0)))) as stub:
        ended = cli("job", "next", "--wait", "30", "--json", url=stub.url)
    assert ended.code == 0
    assert len(stub.asked) == 3


def test_redrive_goes_on_while_it_helps():
    def answer(asked):
        if asked.method == "GET":
            return 200, {"queues": {"lease-dead": 150, "dispatch-dead": 0}, "total": 150}
        done = len(stub.of("/redrive"))
        return 200, {"queue": "lease-dead", "redriven": [100, 50, 0][done - 1], "failed": 0}

    with serving(Stub(answer)) as stub:
        ended = cli("dead-letters", "redrive", "--json", url=stub.url)
    assert ended.document == {"queues": [{"queue": "lease-dead", "redriven": 150, "failed": 0}]}
    assert len({one.key for one in stub.of("/redrive")}) == 3


def test_status_shows_a_sick_store():
    def answer(asked):
        return problem(422, "invalid") if asked.path == "/health" else bus(asked)

    with serving(Stub(answer)) as stub:
        ended = cli("status", url=stub.url)
        document = cli("status", "--json", url=stub.url).document
    assert ended.code == 0
    assert "said invalid" in ended.out
    assert f"MCP      {stub.url}/mcp" in ended.out
    assert document["mcp"] == f"{stub.url}/mcp"
    assert document["project"] == "default"
    assert document["me"] == ME
    assert document["attention"] == {"kinds": {"dead_letters": 1, "blocked": 1, "decision": 1}, "more": True}
    assert "attention: dead_letters 1, blocked 1, decision 1 or more" in ended.out


def test_status_says_nothing_of_what_others_are_asked_about():
    def answer(asked):
        return problem(403, "forbidden") if asked.path.endswith("/attention") else bus(asked)

    with serving(Stub(answer)) as stub:
        ended = cli("status", url=stub.url)
    assert ended.code == 0
    assert "attention" not in ended.out


@pytest.mark.parametrize(
    ("status", "code"), [("completed", 0), ("failed", 1), ("cancelled", 1), ("blocked", 6)]
)
def test_wait_ends_by_the_jobs_status(status, code):
    seen = iter(["published", "in_progress", status])
    with serving(Stub(lambda _: (200, {"job": {**JOB, "status": next(seen)}}))) as stub:
        ended = cli("job", "wait", "job_1", "--json", url=stub.url)
    assert ended.code == code
    assert ended.document["job"]["status"] == status


def test_wait_says_where_a_cascade_began():
    failed = {**JOB, "status": "failed", "caused_by": {"upstreams": ["job_2"], "root": "job_3"}}
    with serving(Stub(lambda _: (200, {"job": failed}))) as stub:
        ended = cli("job", "wait", "job_1", "--json", url=stub.url)
    assert ended.code == 1
    assert ended.document["job"]["caused_by"]["root"] == "job_3"
    assert "it began with job_3" in ended.err


def test_wait_gives_up_in_time():
    with serving(Stub(lambda _: (200, {"job": {**JOB, "status": "pending"}}))) as stub:
        ended = cli("job", "wait", "job_1", "--timeout", "0.2", "--json", url=stub.url)
    assert ended.code == 75
    assert ended.document["job"]["status"] == "pending"
    assert "pending" in ended.err


def test_wait_can_go_through_a_block():
    seen = iter(["blocked", "unblocked", "completed"])
    with serving(Stub(lambda _: (200, {"job": {**JOB, "status": next(seen)}}))) as stub:
        assert cli("job", "wait", "job_1", "--through-blocks", url=stub.url).code == 0
