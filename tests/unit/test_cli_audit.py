"""`interlock audit verify`: chains recomputed from the bus or from an export; the first bad link is named."""

import json

import pytest
from tests.unit.cli_stub import Stub, cli, serving

from interlock.domain.ledger import GENESIS, Fact, seal

SOMEBODY = {"kind": "owner", "id": "own_1", "label": "o"}


def chain(entity, count):
    facts = [
        Fact("job.created", None, "published", {"n": 0}),
        *(Fact(f"custom.e{n}", data={"n": n}) for n in range(1, count)),
    ]
    return list(seal(entity, 0, GENESIS, 1_000, SOMEBODY, facts).events)


CHAINS = {
    "project/default": chain("project/default", 3),
    "agent/agt_1": chain("agent/agt_1", 1),
    "owner/own_1": chain("owner/own_1", 1),
    **{f"job/job_{n}": chain(f"job/job_{n}", 4) for n in range(5)},
}


def export(tmp_path, events, extra=""):
    file = tmp_path / "export.ndjson"
    file.write_text("".join(json.dumps(event) + "\n" for event in events) + extra)
    return str(file)


def flat(chains):
    """All events, entity by entity in turn, as a feed might give them."""
    return [
        event
        for row in range(max(map(len, chains.values())))
        for events in chains.values()
        for event in events[row : row + 1]
    ]


def tampered(change):
    chains = {entity: [dict(event) for event in events] for entity, events in CHAINS.items()}
    change(chains["job/job_2"])
    return chains


def alter(events):
    events[1]["data"] = {"n": 99}


def reforge(events):
    forged = seal("job/job_2", 1, events[0]["digest"], 1_000, SOMEBODY, [Fact("custom.forged")]).events[0]
    events[1] = forged


TAMPERINGS = [
    (alter, 2, "broken"),
    (reforge, 3, "broken"),
    (lambda events: events.pop(1), 2, "hole"),
    (lambda events: events.pop(0), 1, "hole"),
    (lambda events: events.append({**events[3], "data": {}, "digest": "f" * 64}), 4, "fork"),
]


def test_a_whole_export_verifies(tmp_path):
    ended = cli("audit", "verify", "--file", export(tmp_path, flat(CHAINS), "\n"), token=None)
    assert ended.code == 0
    assert "25 events in 8 chains: all digests fit, nothing is missing" in ended.out


@pytest.mark.parametrize(("change", "seq", "kind"), TAMPERINGS)
def test_a_tampered_export_names_the_first_bad_link(change, seq, kind, tmp_path):
    file = export(tmp_path, flat(tampered(change)))
    ended = cli("audit", "verify", "--file", file, "--json", token=None)
    assert ended.code == 1
    found = ended.document["findings"]
    assert [(one["entity"], one["seq"], one["kind"]) for one in found] == [("job/job_2", seq, kind)]
    assert f"job/job_2 #{seq} {kind}" in cli("audit", "verify", "--file", file, token=None).out


@pytest.mark.parametrize("line", ["{", "[]", '{"seq": "1"}', '{"seq": 1, "entity": "x"}', "\ud83d"])
def test_a_line_that_is_no_event_is_bad(line, tmp_path):
    file = tmp_path / "export.ndjson"
    file.write_bytes(
        json.dumps(CHAINS["agent/agt_1"][0]).encode() + b"\n" + line.encode("utf-8", "replace") + b"\n"
    )
    ended = cli("audit", "verify", "--file", str(file), "--json", token=None)
    assert ended.code == 1
    assert ended.document["findings"][0]["entity"] == "line 2"


def test_a_file_that_is_not_there_is_usage(tmp_path):
    assert cli("audit", "verify", "--file", str(tmp_path / "no"), token=None).code == 2


class Ledger:
    """A stub bus that serves chains in small pages. ``late`` events appear in the feed on its second reading."""

    def __init__(self, chains, heads=None, late=()):
        self.chains, self.late = chains, set(late)
        self.heads = heads or {
            entity: (events[-1]["seq"], events[-1]["digest"]) for entity, events in CHAINS.items()
        }
        self.readings = 0

    def __call__(self, asked):
        end = asked.path.rpartition("/")[2]
        if asked.path.endswith("/projects/default"):
            return 200, {"project": {"id": "default", **self.head("project/default")}}
        if asked.path.endswith("default/events"):
            return self.feed(asked)
        if end == "events":
            entity = "job/" + asked.path.split("/")[-2]
            return 200, {"items": self.chains[entity], "next_cursor": None, **self.head(entity)}
        kind = end.removesuffix("s")
        items = [
            {"id": entity.partition("/")[2], "label": "x", **self.head(entity)}
            for entity in self.heads
            if entity.startswith(kind + "/")
        ]
        at = int(asked.query.get("cursor", ["0"])[0])
        return 200, {"items": items[at : at + 2], "next_cursor": str(at + 2) if at + 2 < len(items) else None}

    def head(self, entity):
        version, digest = self.heads[entity]
        return {"version": version, "digest": digest}

    def feed(self, asked):
        at = int(asked.query.get("after", ["0"])[0])
        self.readings += at == 0
        events = [
            e for e in flat(self.chains) if self.readings > 1 or (e["entity"], e["seq"]) not in self.late
        ]
        return 200, {"items": events[at : at + 7], "next_cursor": str(at + 7), "more": at + 7 < len(events)}


def test_a_project_verifies_against_its_heads():
    with serving(Stub(Ledger(CHAINS))) as stub:
        ended = cli("audit", "verify", "--json", url=stub.url)
    assert ended.code == 0
    assert ended.document == {"ok": True, "entities": 8, "events": 25, "findings": []}


@pytest.mark.parametrize(("change", "seq", "kind"), [*TAMPERINGS, (lambda events: events.pop(), 4, "short")])
def test_a_tampered_ledger_is_found(change, seq, kind):
    with serving(Stub(Ledger(tampered(change)))) as stub:
        ended = cli("audit", "verify", "--json", url=stub.url)
    assert ended.code == 1
    assert [(one["entity"], one["seq"], one["kind"]) for one in ended.document["findings"]] == [
        ("job/job_2", seq, kind)
    ]


def test_a_chain_that_was_cut_and_its_head_forged_is_found():
    heads = {entity: (events[-1]["seq"], events[-1]["digest"]) for entity, events in CHAINS.items()}
    heads["job/job_2"] = (4, "f" * 64)
    with serving(Stub(Ledger(CHAINS, heads))) as stub:
        ended = cli("audit", "verify", "--json", url=stub.url)
    assert ended.code == 1
    assert ended.document["findings"][0]["entity"] == "job/job_2"


@pytest.mark.parametrize("late", [("job/job_2", 4), ("project/default", 3)])
def test_rows_that_are_still_on_their_way_are_no_finding(late, monkeypatch):
    monkeypatch.setattr("interlock.cli.audit.SETTLE", 0.01)
    with serving(Stub(Ledger(CHAINS, late=[late]))) as stub:
        ended = cli("audit", "verify", "--json", url=stub.url)
    assert ended.code == 0


def test_events_after_the_heads_were_read_are_no_finding():
    longer = {**CHAINS, "job/job_9": chain("job/job_9", 2), "job/job_1": chain("job/job_1", 6)}
    with serving(Stub(Ledger(longer))) as stub:
        assert cli("audit", "verify", url=stub.url).code == 0


def test_text_in_a_finding_is_data(tmp_path):
    events = [{**CHAINS["agent/agt_1"][0], "entity": "agent/\x1b[31m"}]
    ended = cli("audit", "verify", "--file", export(tmp_path, events), token=None)
    assert ended.code == 1
    assert "\x1b" not in ended.out
