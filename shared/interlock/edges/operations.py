"""The operations table: every operation's name, route, models and text.

Routes, OpenAPI, the template, CLI help, the auth matrix and the 404/405 answer come from it. An operation's
handler is ``functions/<area>/<verb>.py`` for ``<area>.<verb>``, its use case is named by ``use_case``, its
rights stand in :data:`interlock.domain.access.RIGHTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

P = "/v1/projects/{project}"
JOB = P + "/jobs/{job}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the bus.

    ``use_case`` is ``module:function`` below ``interlock.app``; ``body``, ``query`` and ``answer`` name models of
    ``interlock.edges.models``. ``created`` means the first answer is 201. ``renews`` means that the call, made
    by the job's holder, renews the lease (operations that end or restart the lease do not need to).
    ``edit`` means If-Match is required.
    """

    name: str
    method: str
    path: str
    use_case: str
    summary: str
    answer: str
    body: str = ""
    query: str = ""
    created: bool = False
    renews: bool = False
    edit: bool = False

    @property
    def keyed(self) -> bool:
        """Whether an Idempotency-Key makes a repeat of it answer the first effect."""
        return self.method == "POST" or self.edit

    @property
    def area(self) -> str:
        """The folder of functions/ that holds the handler."""
        return self.name.partition(".")[0]

    @property
    def verb(self) -> str:
        """The module name of the handler."""
        return self.name.partition(".")[2]


def _op(name: str, route: str, use_case: str, summary: str, answer: str, **more: object) -> Operation:
    method, path = route.split(" ", 1)
    return Operation(name, method, path, use_case, summary, answer, **more)  # type: ignore[arg-type]


_ROWS = (
    # jobs
    _op("jobs.create", f"POST {P}/jobs", "jobs:create", "Publish a job.", "JobAnswer", body="JobCreate", created=True),
    _op("jobs.list", f"GET {P}/jobs", "lists:jobs", "List jobs, summaries only, page by page.", "JobPage", query="JobQuery"),
    _op("jobs.get", f"GET {JOB}", "jobs:get", "Read a whole job.", "JobAnswer", renews=True),
    _op("jobs.edit", f"PATCH {JOB}", "jobs:edit", "Edit a job that nobody has started.", "JobAnswer", body="JobEdit", edit=True),
    _op("jobs.timeline", f"GET {JOB}/events", "ledger:timeline", "Read a job's events.", "Timeline", query="TimelineQuery", renews=True),
    _op("jobs.record", f"POST {JOB}/events", "jobs:record", "Record a custom event on a job.", "EventAnswer", body="CustomEvent", created=True, renews=True),
    _op("jobs.explain", f"GET {JOB}/explain", "claims:explain", "Say why a job is or is not claimable.", "Explanation", query="ExplainQuery", renews=True),
    _op("jobs.attach", f"POST {JOB}/artifacts", "artifacts:attach", "Attach an artifact: a reference, or a slot for an upload.", "ArtifactAttached", body="ArtifactAttach", created=True, renews=True),
    _op("jobs.artifact", f"GET {JOB}/artifacts/{{artifact}}", "artifacts:get", "Read one artifact, and where to download an upload.", "ArtifactRead", renews=True),
    _op("jobs.verify", f"POST {JOB}/artifacts/{{artifact}}/verify", "uploads:verify", "Verify what was uploaded for an artifact.", "ArtifactAnswer", body="Verify", renews=True),
    _op("jobs.link", f"POST {JOB}/links", "links:add", "Let a job wait for another one.", "JobAnswer", body="Link"),
    _op("jobs.graph", f"GET {JOB}/graph", "graph:read", "Read the jobs around a job and their links.", "Graph", query="GraphQuery", renews=True),
    _op("jobs.reopen_context", f"GET {JOB}/reopen-context", "review:reopen_context", "Say why a review sent the work back.", "ReopenContext", renews=True),
    _op("jobs.cancel", f"POST {JOB}/cancel", "jobs:cancel", "Cancel a job.", "JobAnswer", body="Cancel"),
    _op("jobs.retry", f"POST {JOB}/retry", "jobs:retry", "Publish a failed job again.", "JobAnswer", body="Retry"),
    _op("jobs.stop", f"POST {JOB}/stop", "jobs:stop", "Take a held job from its holder.", "JobAnswer", body="Stop"),
    # claims
    _op("claims.next", f"POST {P}/claims", "board:claim_next", "Claim the best job that the caller may take.", "ClaimAnswer", body="ClaimNext"),
    _op("claims.claim", f"POST {JOB}/claim", "claims:claim", "Claim this job.", "ClaimAnswer", body="Claim"),
    _op("claims.complete", f"POST {JOB}/complete", "claims:complete", "Complete the held job.", "JobAnswer", body="Complete"),
    _op("claims.fail", f"POST {JOB}/fail", "claims:fail", "Fail the held job, with a reason.", "JobAnswer", body="Fail"),
    _op("claims.block", f"POST {JOB}/block", "claims:block", "Block the held job; the lease pauses.", "JobAnswer", body="Block"),
    _op("claims.unblock", f"POST {JOB}/unblock", "claims:unblock", "Unblock a job; a resume window starts.", "JobAnswer", body="Unblock"),
    _op("claims.resume", f"POST {JOB}/resume", "claims:resume", "Go on with a blocked or unblocked job.", "ClaimAnswer", body="Resume"),
    _op("claims.release", f"POST {JOB}/release", "claims:release", "Give the job back to the board.", "JobAnswer", body="Release"),
    _op("claims.restart", f"POST {JOB}/restart", "claims:restart", "Start a failed job again, as its last holder.", "ClaimAnswer", body="Restart"),
    _op("claims.heartbeat", f"POST {P}/heartbeat", "leases:heartbeat", "Renew the caller's leases.", "HeartbeatAnswer", body="Heartbeat"),
    _op("claims.reject", f"POST {JOB}/reject", "review:reject", "Send a reviewed job back, with a reason.", "Rejected", body="Reject"),
    # decisions
    _op("decisions.ask", f"POST {JOB}/decisions", "decisions:ask", "Ask for a decision on the held job.", "DecisionAnswer", body="DecisionAsk", created=True, renews=True),
    _op("decisions.list", f"GET {P}/decisions", "decisions:list_all", "List decisions: the open ones, those of a job, or all.", "DecisionPage", query="DecisionQuery"),
    _op("decisions.get", f"GET {P}/decisions/{{decision}}", "decisions:get", "Read a decision.", "DecisionAnswer", renews=True),
    _op("decisions.answer", f"POST {P}/decisions/{{decision}}/answer", "decisions:answer", "Answer a decision; exactly one answer counts.", "DecisionSettled", body="DecisionReply"),
    _op("decisions.withdraw", f"POST {P}/decisions/{{decision}}/withdraw", "decisions:withdraw", "Take a decision back; nobody has to answer it any more.", "DecisionSettled", body="DecisionWithdraw"),
    # plans
    _op("plans.create", f"POST {P}/plans", "plans:create", "Publish many jobs that wait for each other, all or none.", "PlanAnswer", body="Plan", created=True),
    # ledger
    _op("ledger.feed", f"GET {P}/events", "ledger:feed", "Read the project's events as they were written.", "Feed", query="FeedQuery"),
    # roles
    _op("roles.create", f"POST {P}/roles", "roles:create", "Make a role.", "RoleAnswer", body="RoleCreate", created=True),
    _op("roles.list", f"GET {P}/roles", "roles:list_all", "List the roles.", "RolePage"),
    _op("roles.update", f"PATCH {P}/roles/{{role}}", "roles:update", "Change a role's defaults.", "RoleAnswer", body="RoleEdit"),
    _op("roles.delete", f"DELETE {P}/roles/{{role}}", "roles:delete", "Delete a role; it takes no new jobs.", "RoleAnswer"),
    # agents
    _op("agents.create", f"POST {P}/agents", "identity:create_agent", "Enrol an agent; its token is shown once.", "AgentCreated", body="AgentCreate", created=True),
    _op("agents.list", f"GET {P}/agents", "identity:list_agents", "List the agents.", "AgentPage", query="PageQuery"),
    _op("agents.get", f"GET {P}/agents/{{agent}}", "identity:get_agent", "Read an agent.", "AgentAnswer"),
    _op("agents.update", f"PATCH {P}/agents/{{agent}}", "identity:update_agent", "Change an agent's label, roles, capabilities.", "AgentAnswer", body="AgentEdit"),
    _op("agents.delete", f"DELETE {P}/agents/{{agent}}", "identity:retire_agent", "Retire an agent: revoke its tokens, give its jobs back.", "AgentAnswer"),
    _op("agents.stop", f"POST {P}/agents/{{agent}}/stop", "identity:stop_agent", "Stop an agent: end its claims, and let it claim nothing until it is resumed.", "AgentAnswer", body="AgentStop"),
    _op("agents.token_create", f"POST {P}/agents/{{agent}}/tokens", "tokens:create", "Make another token.", "TokenCreated", body="TokenCreate", created=True),
    _op("agents.token_rotate", f"POST {P}/agents/{{agent}}/tokens/{{token}}/rotate", "tokens:rotate", "Replace a token; the old one ends after a grace time.", "TokenCreated", body="TokenRotate", created=True),
    _op("agents.token_revoke", f"DELETE {P}/agents/{{agent}}/tokens/{{token}}", "tokens:revoke", "Revoke a token at once.", "TokenRevoked"),
    # owners of a project
    _op("owners.create", f"POST {P}/owners", "identity:create_owner", "Enrol an owner; the token is shown once.", "OwnerCreated", body="OwnerCreate", created=True),
    _op("owners.list", f"GET {P}/owners", "identity:list_owners", "List the owners.", "OwnerPage", query="PageQuery"),
    _op("owners.delete", f"DELETE {P}/owners/{{owner}}", "identity:remove_owner", "Remove an owner; the tokens are revoked.", "OwnerAnswer"),
    _op("owners.token_create", f"POST {P}/owners/{{owner}}/tokens", "tokens:create", "Make another token.", "TokenCreated", body="TokenCreate", created=True),
    _op("owners.token_rotate", f"POST {P}/owners/{{owner}}/tokens/{{token}}/rotate", "tokens:rotate", "Replace a token; the old one ends after a grace time.", "TokenCreated", body="TokenRotate", created=True),
    _op("owners.token_revoke", f"DELETE {P}/owners/{{owner}}/tokens/{{token}}", "tokens:revoke", "Revoke a token at once.", "TokenRevoked"),
    # owners of the installation
    _op("installation.owner_create", "POST /v1/owners", "identity:create_owner", "Enrol an owner of the installation.", "OwnerCreated", body="OwnerCreate", created=True),
    _op("installation.owner_list", "GET /v1/owners", "identity:list_owners", "List the installation's owners.", "OwnerPage", query="PageQuery"),
    _op("installation.owner_delete", "DELETE /v1/owners/{owner}", "identity:remove_owner", "Remove an owner of the installation.", "OwnerAnswer"),
    _op("installation.token_create", "POST /v1/owners/{owner}/tokens", "tokens:create", "Make another token.", "TokenCreated", body="TokenCreate", created=True),
    _op("installation.token_rotate", "POST /v1/owners/{owner}/tokens/{token}/rotate", "tokens:rotate", "Replace a token; the old one ends after a grace time.", "TokenCreated", body="TokenRotate", created=True),
    _op("installation.token_revoke", "DELETE /v1/owners/{owner}/tokens/{token}", "tokens:revoke", "Revoke a token at once.", "TokenRevoked"),
    # projects
    _op("projects.create", "POST /v1/projects", "projects:create", "Make a project.", "ProjectAnswer", body="ProjectCreate", created=True),
    _op("projects.list", "GET /v1/projects", "projects:list_all", "List the projects.", "ProjectPage", query="PageQuery"),
    _op("projects.get", f"GET {P}", "projects:get", "Read a project.", "ProjectAnswer"),
    _op("projects.update", f"PATCH {P}", "projects:update", "Change a project's title and settings.", "ProjectAnswer", body="ProjectEdit"),
    _op("projects.pause", f"POST {P}/pause", "projects:pause", "Pause claims of the project, a role or an agent.", "Paused", body="Pause"),
    _op("projects.resume", f"POST {P}/resume", "projects:resume", "Let claims go on.", "Paused", body="Pause"),
    _op("projects.broadcast", f"POST {P}/broadcasts", "broadcasts:create", "Tell the project's agents something.", "BroadcastAnswer", body="Broadcast", created=True),
    _op("projects.unbroadcast", f"DELETE {P}/broadcasts/{{broadcast}}", "broadcasts:delete", "Take a broadcast back.", "BroadcastAnswer"),
    # system
    _op("system.me", f"GET {P}/me", "system:me", "Who the caller is and what it holds.", "Me", query="ClaimsQuery"),
    _op("system.stats", f"GET {P}/stats", "system:stats", "Counts and ages of what is on the board.", "Stats"),
    _op("system.workers", f"GET {P}/workers", "workers:read", "Who works: last seen, what each agent holds, who is stale.", "WorkerPage", query="PageQuery"),
    _op("system.attention", f"GET {P}/attention", "attention:read", "What needs a person, and what may be done about it.", "AttentionPage", query="PageQuery"),
    _op("system.repair", f"POST {P}/repair", "system:repair", "Send again what an entity's head implies.", "Repaired", body="Repair"),
    _op("system.dead_letters", "GET /v1/dead-letters", "system:dead_letters", "Count the messages and records that could not be handled.", "DeadLetters"),
    _op("system.redrive", "POST /v1/dead-letters/redrive", "system:redrive", "Handle dead letters again.", "Redriven", body="Redrive"),
    _op("system.health", "GET /health", "system:health", "Whether the bus can reach its store.", "Health"),
    _op("system.openapi", "GET /openapi.json", "openapi:serve", "This API as OpenAPI 3.1.", "Document"),
)  # fmt: skip

OPERATIONS: Mapping[str, Operation] = {row.name: row for row in _ROWS}
