"""Records of exports and archives: one JSON object a line, whose ``kind`` says what it is.

| Kind | What |
|---|---|
| ``export``, ``archive`` | the first line: of what, in which ``format`` |
| ``project``, ``role``, ``agent``, ``owner``, ``job`` | as the API shows it, a job whole |
| ``decision`` | as the API shows it, and its kind as ``decision_kind`` |
| ``link`` | ``type`` (blocks, parent, reopen_of, routed_from), ``from`` where it begins, ``to`` where it leads |
| ``event`` | an event of the ledger with all of its data |

What carries ``version`` and ``digest`` is the head of a chain of events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

FORMAT = 1
HEADS = frozenset({"project", "agent", "owner", "job"})
"""Kinds of records that are heads of chains; ``<kind>/<id>`` is how the ledger names them."""
KINDS = HEADS | {"export", "archive", "role", "decision", "link", "event"}


def line(kind: str, value: Mapping[str, Any]) -> str:
    """One record as a line: ASCII, key order kept."""
    return json.dumps({"kind": kind, **value}) + "\n"


def decision(shown: Mapping[str, Any]) -> dict[str, Any]:
    """A decision's record, from the decision as it is shown: a line's ``kind`` says what the line is."""
    return {"decision_kind" if name == "kind" else name: value for name, value in shown.items()}


def links(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The links that lead to a job, from the whole job as it is shown."""
    for up in job["upstream"]:
        more = {name: up[name] for name in ("state", "replaced_by") if name in up}
        yield {"type": up["type"], "from": up["id"], "to": job["id"], **more}
    for kind in ("parent", "reopen_of", "routed_from"):
        if job[kind]:
            yield {"type": kind, "from": job[kind], "to": job["id"]}
