"""The tools table: every tool in the order in which clients list them."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.edges.mcp import on_claims, on_decisions, on_jobs, on_self
from interlock.edges.mcp.tool import Row

_ROWS = {
    row.name: row for rows in (on_jobs.ROWS, on_claims.ROWS, on_decisions.ROWS, on_self.ROWS) for row in rows
}
_ORDER = (
    "whoami", "list_jobs", "get_job", "claim_next", "claim_job", "heartbeat", "complete_job", "fail_job", "set_job_status",
    "attach_artifact", "record_event", "request_decision", "list_decisions", "answer_decision", "reject_job",
    "publish_job", "publish_plan", "edit_job",
)  # fmt: skip
"""By what an agent does first."""

ROWS: Mapping[str, Row] = {name: _ROWS[name] for name in _ORDER}
