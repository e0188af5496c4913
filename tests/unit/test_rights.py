"""The rights table, said once more in the words of the specification."""

from __future__ import annotations

import pytest

from interlock.domain.access import RIGHTS, allowed, relations
from interlock.edges.operations import OPERATIONS

SAID: dict[str, tuple[set[str], tuple[str, ...]]] = {
    "open to everybody": ({"anyone"}, ("system.health", "system.openapi")),
    "under a claim, proved by the fence": (
        {"holder"},
        ("claims.complete", "claims.fail", "claims.reject", "claims.block", "claims.resume", "claims.release", "decisions.ask"),
    ),
    "the last assignee needs no fence": ({"last_holder"}, ("claims.restart",)),
    "the holder, or an owner without a fence": ({"holder", "owner"}, ("claims.unblock",)),
    "source while nobody holds it, assignee, owner": (
        {"source", "holder", "owner"},
        ("jobs.cancel", "jobs.attach", "jobs.verify"),
    ),
    "edits and links by source or owner": ({"source", "owner"}, ("jobs.edit", "jobs.link")),
    "any agent, owner": ({"agent", "owner"}, ("jobs.create", "jobs.record", "plans.create")),
    "an owner answers, or an agent of a role that the decision names": ({"named", "owner"}, ("decisions.answer",)),
    "whoever asked takes it back, or an owner": ({"asker", "owner"}, ("decisions.withdraw",)),
    "an agent takes jobs": ({"agent"}, ("claims.claim",)),
    "an agent without a live role is told that there is nothing": ({"enrolled"}, ("claims.next", "claims.heartbeat")),
    "who sees the job, the roles, the project": (
        {"agent", "owner", "viewer"},
        ("jobs.get", "jobs.timeline", "jobs.explain", "jobs.artifact", "jobs.graph", "jobs.reopen_context", "roles.list", "projects.get", "system.stats",
         "system.workers", "decisions.list", "decisions.get"),
    ),
    "lists that are empty for those who see nothing": (
        {"enrolled", "owner", "viewer"},
        ("jobs.list", "ledger.feed", "system.me"),
    ),
    "people, and what needs one, are the owners' business": (
        {"owner", "viewer"},
        ("agents.list", "owners.list", "system.attention"),
    ),
    "an agent reads itself": ({"owner", "viewer", "self"}, ("agents.get",)),
    "owner operations": (
        {"owner"},
        ("jobs.retry", "jobs.stop", "projects.pause", "projects.resume", "projects.update", "system.repair",
         "roles.create", "roles.update", "roles.delete", "agents.create", "agents.update", "agents.delete", "agents.stop", "projects.broadcast", "projects.unbroadcast", "agents.token_create",
         "agents.token_rotate", "agents.token_revoke", "owners.create", "owners.delete", "owners.token_create", "owners.token_rotate",
         "owners.token_revoke"),
    ),
    "only an owner of the installation": (
        {"installation"},
        ("projects.create", "projects.list", "installation.owner_create", "installation.owner_list", "installation.owner_delete",
         "installation.token_create", "installation.token_rotate", "installation.token_revoke", "system.dead_letters", "system.redrive"),
    ),
}  # fmt: skip


def test_every_operation_has_the_rights_that_the_specification_gives_it() -> None:
    said = {name: rights for rights, names in SAID.values() for name in names}
    assert said == {name: set(rights) for name, rights in RIGHTS.items()}
    assert said.keys() == OPERATIONS.keys()


@pytest.mark.parametrize(
    ("kind", "rights", "scope", "live_role", "held"),
    [
        ("agent", "", "default", True, {"enrolled", "agent"}),
        ("agent", "", "default", False, {"enrolled"}),
        ("owner", "owner", "default", False, {"owner", "viewer"}),
        ("owner", "viewer", "default", False, {"viewer"}),
        ("owner", "owner", "installation", False, {"owner", "viewer", "installation"}),
        ("owner", "viewer", "installation", False, {"viewer"}),
    ],
)
def test_the_relations_of_a_credential(
    kind: str, rights: str, scope: str, live_role: bool, held: set[str]
) -> None:
    assert relations(kind, rights, scope, live_role=live_role) == held


@pytest.mark.parametrize("operation", RIGHTS)
def test_no_right_without_a_relation(operation: str) -> None:
    open_to_all = set(RIGHTS[operation]) == {"anyone"}
    for kind in ("agent", "owner"):
        assert allowed(operation, frozenset(), kind) is open_to_all
    held_by_agents = {"holder", "last_holder"} & set(RIGHTS[operation])
    live = allowed(operation, frozenset({"enrolled", "agent"}), "agent")
    assert live is bool(open_to_all or held_by_agents or {"enrolled", "agent"} & set(RIGHTS[operation]))
