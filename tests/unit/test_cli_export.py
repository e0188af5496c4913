"""`interlock export`: everything that the caller sees, one record a line, and `audit verify` takes it."""

import json
from collections import Counter

import pytest
from tests.sim.world import world
from tests.unit.cli_stub import Stub, cli, problem, serving

from interlock.app import records
from interlock.domain.ledger import verify

LARGE = {"notes": ["n" * 500]}


class Behind:
    """A world behind a stub's HTTP. ``changed`` may answer in the bus's place."""

    def __init__(self, w, changed=lambda asked: None):
        self.w, self.changed = w, changed

    def __call__(self, asked):
        instead = self.changed(asked)
        if instead is not None:
            return instead
        query = [(name, value) for name, values in asked.query.items() for value in values]
        reply = self.w.call(asked.method, asked.path, asked.body, token=asked.token, query=query)
        return reply.status, reply.body


@pytest.fixture
def w():
    """Links of every type, a cascade, a review, large event data, text that is hard to write."""
    w = world()
    parent = w.job(
        summary="umlaut é, control \u0007, astral 𝄞", context={"big": 10**40, "float": 0.1, "z": 1, "a": None}
    )
    work = w.job(parent=parent, routing=[{"role": "qa", "summary": "follows"}])
    review = w.job(role="qa", blocked_by=[work])
    w.ok("POST", f"P/jobs/{work}/complete", {"fence": w.claim(work), "result": {"data": LARGE}})
    w.pump()
    w.ok("POST", f"P/jobs/{review}/reject", {"fence": w.claim(review), "target": work, "reason": "r" * 900})
    root = w.job()
    w.job(blocked_by=[root])
    w.ok("POST", f"P/jobs/{root}/events", {"type": "custom.note", "data": LARGE})
    w.ok("POST", f"P/jobs/{root}/fail", {"fence": w.claim(root), "reason": "broken"})
    asked = w.job()
    body = {"fence": w.claim(asked), "kind": "review", "prompt": "look: \u0007", "wait": False}
    for answer in ("approve", None):
        made = w.ok("POST", f"P/jobs/{asked}/decisions", body)["decision"]["id"]
        if answer:
            w.ok("POST", f"P/decisions/{made}/answer", {"answer": answer}, token="owner")
    w.ok("POST", "P/roles", {"key": "cook", "label": "Cook"}, token="owner")
    w.ok("POST", "P/owners", {"label": "somebody", "rights": "viewer"}, token="owner")
    w.pump()
    return w


def export(w, *args, token=None, changed=lambda asked: None):
    with serving(Stub(Behind(w, changed))) as stub:
        return cli("export", *args, url=stub.url, token=token or w.owner)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def of(found, kind):
    return [
        {name: value for name, value in one.items() if name != "kind"} for one in found if one["kind"] == kind
    ]


def everyone(w, path, **query):
    items, cursor = [], None
    while True:
        page = w.ok("GET", path, token="owner", query={**query, **({"cursor": cursor} if cursor else {})})
        items, cursor = items + page["items"], page["next_cursor"]
        if cursor is None:
            return items


def test_everything_is_there_once(w):
    ended = export(w)
    assert ended.code == 0
    assert ended.out.isascii()
    found = lines(ended.out)
    assert found[0]["kind"] == "export"
    assert (found[0]["project"], found[0]["format"]) == ("default", records.FORMAT)
    assert {one["kind"] for one in found} == records.KINDS - {"archive"}
    assert of(found, "project") == [w.ok("GET", "P", token="owner")["project"]]
    assert {one["key"] for one in of(found, "role")} >= {"developer", "qa", "cook"}
    assert [one["id"] for one in of(found, "agent")] == [one["id"] for one in everyone(w, "P/agents")]
    jobs = of(found, "job")
    assert [one["id"] for one in jobs] == [one["id"] for one in everyone(w, "P/jobs", order="oldest")]
    for job in jobs:
        whole = w.get(job["id"])
        assert job == {name: value for name, value in whole.items() if not name.startswith("downstream")}
    asked = everyone(w, "P/decisions", state="all")
    assert [(each["decision_kind"], each["state"]) for each in of(found, "decision")] == [
        ("review", "answered" if each["answer"] else "open") for each in asked
    ]
    assert {each["job"] for each in of(found, "decision")} <= {job["id"] for job in jobs}
    events = of(found, "event")
    assert events == w.ok("GET", "P/events", token="owner", query={"limit": 1_000})["items"]
    assert verify(events, {f"job/{job['id']}": (job["version"], job["digest"]) for job in jobs}) == []
    counts = Counter(one["kind"] for one in found)
    assert f"{counts['job']} jobs" in ended.err
    assert f"{counts['event']} events" in ended.err


def test_links_are_those_of_the_graph(w):
    found = lines(export(w).out)
    links = {
        (one["from"], one["to"], one["type"]) for one in of(found, "link") if one.get("state") != "replaced"
    }
    graphs = [
        w.ok("GET", f"P/jobs/{job['id']}/graph", token="owner", query={"depth": 50})
        for job in of(found, "job")
    ]
    edges = {(edge["from"], edge["to"], edge["type"]) for graph in graphs for edge in graph["edges"]}
    assert {kind for _, _, kind in links} == {"blocks", "parent", "reopen_of", "routed_from"}
    # a routed job's origin is its parent too, which a graph shows as one edge
    assert links - edges == {
        (one["from"], one["to"], "parent") for one in of(found, "link") if one["type"] == "routed_from"
    }
    assert edges <= links
    (replaced,) = [one for one in of(found, "link") if one.get("state") == "replaced"]
    assert replaced["replaced_by"] in {job["id"] for job in of(found, "job")}


def test_a_file_is_whole_or_not_there(w, tmp_path):
    out = tmp_path / "project.ndjson"
    ended = export(w, "--out", str(out), "--json")
    assert ended.code == 0
    assert ended.document["incomplete"] == []
    assert ended.document["records"] == dict(Counter(one["kind"] for one in lines(out.read_text())))
    out.write_text("before")
    with serving(
        Stub(Behind(w, lambda asked: problem(422, "invalid") if asked.path.endswith("/events") else None))
    ) as stub:
        assert cli("export", "--out", str(out), url=stub.url, token=w.owner).code == 1
    assert out.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["project.ndjson"]


def test_a_folder_that_is_not_there_is_usage(w, tmp_path):
    assert export(w, "--out", str(tmp_path / "no" / "x")).code == 2


def test_audit_takes_an_export_with_its_heads(w, tmp_path):
    out = tmp_path / "x.ndjson"
    export(w, "--out", str(out))
    ended = cli("audit", "verify", "--file", str(out), "--json", token=None)
    assert ended.code == 0
    assert ended.document["heads"] is True
    found = lines(out.read_text())
    assert ended.document["events"] == len(of(found, "event"))
    job = of(found, "job")[-1]
    cut = [
        one for one in found if (one.get("entity"), one.get("seq")) != (f"job/{job['id']}", job["version"])
    ]
    out.write_text("".join(json.dumps(one) + "\n" for one in cut))
    (finding,) = cli("audit", "verify", "--file", str(out), "--json", token=None).document["findings"]
    assert (finding["entity"], finding["seq"], finding["kind"]) == (
        f"job/{job['id']}",
        job["version"],
        "short",
    )


@pytest.mark.parametrize("member", ["summary", "data"])
def test_an_altered_event_of_an_export_is_found(w, tmp_path, member):
    out = tmp_path / "x.ndjson"
    export(w, "--out", str(out))
    found = lines(out.read_text())
    event = next(one for one in found if one["kind"] == "event" and one["type"] == "custom.note")
    event["data"][member] = "else"
    out.write_text("".join(json.dumps(one) + "\n" for one in found))
    (finding,) = cli("audit", "verify", "--file", str(out), "--json", token=None).document["findings"]
    assert (finding["entity"], finding["seq"], finding["kind"]) == (event["entity"], event["seq"], "broken")


def test_an_agent_exports_what_it_sees(w):
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.ok("POST", "P/roles", {"key": "baker", "label": "Baker"}, token="owner")
    w.enrol("baker", ("baker",))
    mine = w.job(role="baker", token="owner")
    w.pump()
    found = lines(export(w, token=w.agents["baker"]).out)
    assert [one["id"] for one in of(found, "job")] == [mine]
    assert {event["entity"].partition("/")[0] for event in of(found, "event")} == {"project", "job"}
    assert not of(found, "agent")
    assert verify(of(found, "event"), {f"job/{mine}": (1, of(found, "job")[0]["digest"])}) == []


def test_events_that_are_still_on_their_way_are_waited_for(w, monkeypatch):
    """A job's from its timeline, which the head completes; those of others from the feed, a moment later."""
    monkeypatch.setattr("interlock.cli.audit.SETTLE", 0.0)
    late = w.job()  # nobody has dispatched it
    w.ok("POST", "P/pause", {"role": "qa"}, token="owner")
    readings = Counter()

    def catching_up(asked):
        if asked.path.endswith("/default/events"):
            readings["feed"] += 1
            if readings["feed"] == 2:
                w.dispatch()

    ended = export(w, changed=catching_up)
    assert ended.code == 0
    events = of(lines(ended.out), "event")
    heads = {f"job/{late}": (1, w.get(late)["digest"])}
    project = w.ok("GET", "P", token="owner")["project"]
    assert verify(events, {**heads, "project/default": (project["version"], project["digest"])}) == []
    assert len({(event["entity"], event["seq"]) for event in events}) == len(events)


def test_what_stays_missing_is_said(w, monkeypatch):
    monkeypatch.setattr("interlock.cli.audit.SETTLE", 0.0)
    w.ok("POST", "P/pause", {"role": "qa"}, token="owner")
    ended = export(w)
    assert ended.code == 75
    assert "project/default" in ended.err


def test_a_job_that_goes_meanwhile_is_left_out(w):
    gone = w.job()
    w.pump()
    ended = export(w, changed=lambda asked: problem(404, "not_found") if asked.path.endswith(gone) else None)
    assert ended.code == 0
    assert gone not in {job["id"] for job in of(lines(ended.out), "job")}
