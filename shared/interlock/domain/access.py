"""The rights table: which operation which actor may carry out, by relation to the object.

Relations an operation can name:

- ``enrolled``: any agent of the project. ``agent``: one with a live role. ``owner``: an owner of the project (or of the
  installation) with owner rights. ``viewer``: an owner with viewer rights (owners are viewers too).
- ``source``: whoever created the job. ``holder``: the agent that holds the job's claim. ``last_holder``: the
  agent that held it when it failed. ``self``: the agent or owner that the object is.
- ``asker``: the agent that asked the decision. ``named``: an agent with a live role that the decision names.
- ``installation``: an owner of the installation. ``anyone``: no credential needed. ``caller``: any valid
  credential.

REST routes, OpenAPI texts, the auth matrix test and the console's buttons read this table.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.domain.identity import INSTALLATION

READ = ("agent", "owner", "viewer")
HOLDER = ("holder",)
OWNER = ("owner",)

RIGHTS: Mapping[str, tuple[str, ...]] = {
    "jobs.create": ("agent", "owner"),
    "jobs.list": ("enrolled", "owner", "viewer"),
    "jobs.get": READ,
    "jobs.edit": ("source", "owner"),
    "jobs.timeline": READ,
    "jobs.record": ("agent", "owner"),
    "jobs.explain": READ,
    "jobs.attach": ("source", "holder", "owner"),
    "jobs.artifact": READ,
    "jobs.verify": ("source", "holder", "owner"),
    "jobs.link": ("source", "owner"),
    "jobs.graph": READ,
    "jobs.reopen_context": READ,
    "jobs.cancel": ("source", "holder", "owner"),
    "jobs.retry": OWNER,
    "jobs.stop": OWNER,
    "claims.next": ("enrolled",),
    "claims.claim": ("agent",),
    "claims.complete": HOLDER,
    "claims.fail": HOLDER,
    "claims.reject": HOLDER,
    "claims.block": HOLDER,
    "claims.unblock": ("holder", "owner"),
    "claims.resume": HOLDER,
    "claims.release": HOLDER,
    "claims.restart": ("last_holder",),
    "claims.heartbeat": ("enrolled",),
    "decisions.ask": HOLDER,
    "decisions.list": READ,
    "decisions.get": READ,
    "decisions.answer": ("named", "owner"),
    "decisions.withdraw": ("asker", "owner"),
    "plans.create": ("agent", "owner"),
    "ledger.feed": ("enrolled", "owner", "viewer"),
    "roles.create": OWNER,
    "roles.list": READ,
    "roles.update": OWNER,
    "roles.delete": OWNER,
    "agents.create": OWNER,
    "agents.list": ("owner", "viewer"),
    "agents.get": ("owner", "viewer", "self"),
    "agents.update": OWNER,
    "agents.delete": OWNER,
    "agents.stop": OWNER,
    "agents.token_create": OWNER,
    "agents.token_rotate": OWNER,
    "agents.token_revoke": OWNER,
    "owners.create": OWNER,
    "owners.list": ("owner", "viewer"),
    "owners.delete": OWNER,
    "owners.token_create": OWNER,
    "owners.token_rotate": OWNER,
    "owners.token_revoke": OWNER,
    "installation.owner_create": ("installation",),
    "installation.owner_list": ("installation",),
    "installation.owner_delete": ("installation",),
    "installation.token_create": ("installation",),
    "installation.token_rotate": ("installation",),
    "installation.token_revoke": ("installation",),
    "projects.create": ("installation",),
    "projects.list": ("installation",),
    "projects.get": READ,
    "projects.update": OWNER,
    "projects.pause": OWNER,
    "projects.resume": OWNER,
    "projects.broadcast": OWNER,
    "projects.unbroadcast": OWNER,
    "system.me": ("enrolled", "owner", "viewer"),
    "system.stats": ("owner", "viewer", "agent"),
    "system.workers": READ,
    "system.attention": ("owner", "viewer"),
    "system.repair": OWNER,
    "system.dead_letters": ("installation",),
    "system.redrive": ("installation",),
    "system.health": ("anyone",),
    "system.openapi": ("anyone",),
}


WORDS: Mapping[str, str] = {
    "anyone": "everybody",
    "enrolled": "agents of the project",
    "agent": "agents with a live role",
    "owner": "owners",
    "viewer": "viewers",
    "installation": "owners of the installation",
    "source": "the job's source",
    "holder": "the job's holder",
    "last_holder": "the job's last holder",
    "self": "whom it is about",
    "asker": "who asked",
    "named": "agents of a role that the decision names",
}
"""The relations in the words of refusals and docs."""


def relations(kind: str, rights: str, scope: str, *, live_role: bool) -> frozenset[str]:
    """The relations that a credential gives by itself, whatever the object."""
    if kind == "agent":
        return frozenset({"enrolled", "agent"} if live_role else {"enrolled"})
    if rights != "owner":
        return frozenset({"viewer"})
    return frozenset({"owner", "viewer", "installation"} if scope == INSTALLATION else {"owner", "viewer"})


def allowed(operation: str, held: frozenset[str], kind: str) -> bool:
    """Whether an actor that stands in these relations may go on with the operation.

    Holding is judged by the operation itself, with the fence, so that a lost claim is told apart from a foreign
    one: an agent passes here wherever a holder may act.
    """
    rights = RIGHTS[operation]
    if "anyone" in rights or not held.isdisjoint(rights):
        return True
    may_hold = "agent" in held and not {"holder", "last_holder"}.isdisjoint(rights)
    return kind == "agent" and may_hold
