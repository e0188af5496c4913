"""Who is there to work: a project's live agents, and whether one of them can take a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.app.call import Bus
from interlock.domain.identity import Agent, Project, live_tokens
from interlock.store import items, keys
from interlock.store.ports import Key, Query

BATCH = 50


class Staff:
    """The live agents of a project (not retired, with a token that works), read as far as they are asked about."""

    def __init__(self, bus: Bus, project: Project, now: int) -> None:
        self._project = project
        self._known: list[Agent] = []
        self._rest = self._read(bus, now)
        self._answers: dict[tuple[str, frozenset[str], frozenset[str]], str | None] = {}

    def why_nobody(self, role: str, capabilities: Sequence[str], excluded: Sequence[str] = ()) -> str | None:
        """Why no live agent can take a job that asks for these; None when one can."""
        asked = (role, frozenset(capabilities), frozenset(excluded))
        if asked not in self._answers:
            self._answers[asked] = self._why_nobody(*asked)
        return self._answers[asked]

    def _why_nobody(self, role: str, capabilities: frozenset[str], excluded: frozenset[str]) -> str | None:
        if role not in self._project.roles:
            return f"role {role} was deleted"
        held = able = False
        for agent in self._agents():
            if role in agent.roles:
                held = True
                if capabilities.issubset(agent.capabilities):
                    able = True
                    if agent.id not in excluded:
                        return None
        if not held:
            return f"no live agent holds role {role}"
        if not able:
            return f"no live agent of role {role} has {', '.join(sorted(capabilities))}"
        return "it is independent, and every live agent that could take it worked on what it depends on"

    def _agents(self) -> Iterator[Agent]:
        yield from self._known
        for agent in self._rest:
            self._known.append(agent)
            yield agent

    def _read(self, bus: Bus, now: int) -> Iterator[Agent]:
        pk, after = keys.members_partition(self._project.id, "agent"), None
        while True:
            page = bus.store.table.query(Query(pk, index=1, after=after, limit=BATCH))
            wanted = [Key(row["pk"], keys.HEAD) for row in page.items]
            for item in bus.store.table.batch_get(wanted, consistent=False).values():
                agent = items.agent(item)
                if not agent.retired_at and live_tokens(agent.tokens, now):
                    yield agent
            if not page.more or not page.items:
                return
            after = page.items[-1]["g1sk"]
