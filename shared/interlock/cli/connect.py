"""`interlock agent connect`: enrol an agent, make its token, and configure the client that it works in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock import guide
from interlock.cli import configs, screen
from interlock.cli.clients import CLIENTS, NAME, TOKEN, URL, Kind
from interlock.cli.command import Session, command
from interlock.cli.exits import REFUSED, CommandError, usage
from interlock.cli.settings import CREDENTIALS, Settings

_ABOUT = """Enrol an agent and configure its client, in one step.

CLIENT is claude, codex, cursor, vscode, opencode or gemini. An agent that is there already gets a further token. The
configuration takes the token from INTERLOCK_TOKEN and never holds it. Without --write nothing is written: the
configuration and the token are printed, once. With --write the configuration goes into the client's own file, the token
into .interlock/agents/NAME.env, which only you can read."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_INERT = re.compile(r"[A-Za-z0-9._:/@%+,=\[\]-]+")
"""What every shell takes as it stands: the bus may be anybody's, and a shell reads what is written here."""


def register(app: typer.Typer) -> None:
    """Add the command to `interlock agent`."""

    @command(app, "connect", text=_ABOUT, without=("side", "key"))
    def connect(
        session: Session,
        client: Annotated[str, typer.Argument(metavar="CLIENT", help=", ".join(CLIENTS))],
        name: Annotated[str, typer.Option("--as", metavar="NAME", help="The agent, by label or id.")],
        roles: Annotated[
            list[str] | None,
            typer.Option(
                "--role", help="A new agent's role; repeatable. None: all that are not independent."
            ),
        ] = None,
        write: Annotated[bool, typer.Option("--write", help="Write the files.")] = False,
        stdio: Annotated[
            bool, typer.Option("--stdio", help="The client starts `interlock mcp` instead of speaking HTTP.")
        ] = False,
        skills: Annotated[
            bool, typer.Option("--skills", help="With --write: skills, and a note for the agent, too.")
        ] = False,
    ) -> None:
        if client not in CLIENTS:
            raise usage(f"there is no client {client!r}", f"Known are {', '.join(CLIENTS)}.")
        if skills and not write:
            raise usage("--skills writes files", "Send --write with it.")
        session.side = "owner"
        _Connecting(session, client, name, list(roles or ()), stdio).run(write=write, skills=skills)


class _Connecting:
    """One invocation."""

    def __init__(self, session: Session, client: str, name: str, roles: list[str], stdio: bool) -> None:
        self.session, self.client, self.name, self.roles = session, client, name, roles
        self.kind: Kind = CLIENTS[client]
        self.folder = Path.cwd()
        self.url = session.settings.url
        if not _INERT.fullmatch(self.url):
            raise usage(
                f"a shell cannot take the bus's address as it stands: {self.url!r}",
                "Name the bus by an address without special signs.",
            )
        self.entry = self.kind.stdio() if stdio else self.kind.http(f"{self.url}/mcp")
        self.file = self.kind.file(self.folder)

    def run(self, *, write: bool, skills: bool) -> None:
        place = (self.file, self.kind.table, NAME, self.entry, self.kind.first or {})
        config = configs.shown(*place)
        texts: dict[Path, str] = {}
        if write:  # what cannot be written is found before anything is made
            texts = {self.file: configs.merged(*place), **(self._skills() if skills else {})}
        found = self._agent()
        token = self._kept(self._secret(found), found) if write and found else None
        if token is None:
            found, token = self._made(found)
        assert found is not None
        secret = self._secret(found)
        answer: dict[str, Any] = {
            "agent": {name: found[name] for name in ("id", "label", "roles")},
            "client": self.client,
            "url": f"{self.url}/mcp",
            "file": str(self.file),
            "config": config,
            "written": [],
            "environment": {URL: self.url, TOKEN: None if write else token},
        }
        if write:
            self._keep(secret, token)
            for file, text in texts.items():
                configs.write(file, text)
            answer["written"] = [str(file) for file in (secret, *texts)]
            answer["load"] = f"set -a; . {shlex.quote(_near(secret, self.folder))}; set +a"
        answer["start"] = self.kind.start
        self.session.show(answer, self._tell)

    # The agent and its token

    def _agent(self) -> dict[str, Any] | None:
        """The live agent of this name, or None."""
        found = [
            agent
            for agent in self.session.client.items("agents.list")
            if self.name in (agent["id"], agent["label"]) and not agent["retired_at"]
        ]
        if len(found) > 1:
            raise usage(
                f"{len(found)} agents are labelled {self.name!r}: name one by id",
                ", ".join(agent["id"] for agent in found),
            )
        if found and self.roles and set(self.roles) != set(found[0]["roles"]):
            raise usage(
                f"{self.name} is enrolled with the roles {', '.join(found[0]['roles'])}",
                "Leave --role away, or change them with `interlock agent edit`.",
            )
        return found[0] if found else None

    def _made(self, found: dict[str, Any] | None) -> tuple[dict[str, Any], str]:
        """The agent, enrolled where it is not there yet, and a new token of its."""
        if found is not None:
            path = {"agent": found["id"]}
            made = self.session.call("agents.token_create", {"name": self.client}, path=path).value
            return found, self._shown_once(made)
        if self.name.startswith("agt_"):
            raise CommandError(
                REFUSED, f"there is no live agent {self.name}", "`interlock agent list` names them."
            )
        roles = self.roles or self._roles()
        body: dict[str, Any] = {"label": self.name, "roles": roles, "tool_family": self.kind.title}
        made = self.session.call("agents.create", body).value
        return made["agent"], self._shown_once(made)

    def _roles(self) -> list[str]:
        """All roles whose agents may also have done the work: judging it stays with somebody else."""
        found = [
            role["key"] for role in self.session.call("roles.list").value["items"] if not role["independent"]
        ]
        if not found:
            raise usage("the project has no role that is not independent", "Name one with --role.")
        return found

    def _shown_once(self, made: Mapping[str, Any]) -> str:
        if "token" not in made:
            raise CommandError(REFUSED, "the token was shown before", str(made.get("hint") or ""))
        token = str(made["token"])
        if not _INERT.fullmatch(token):
            raise CommandError(REFUSED, "what the bus gave as a token is none", "Is it the bus you mean?")
        return token

    # Files

    def _home(self) -> Path:
        """The nearest folder with a bus's credentials, or the one here."""
        for folder in (self.folder, *self.folder.parents):
            if (folder / CREDENTIALS).is_file():
                return folder / CREDENTIALS.parent
        return self.folder / CREDENTIALS.parent

    def _secret(self, agent: Mapping[str, Any]) -> Path:
        """The private file of an agent: called after its label, or after its id where that is no plain name."""
        name = next((name for name in (agent["label"], agent["id"]) if _PLAIN.fullmatch(name)), None)
        if name is None:
            raise CommandError(
                REFUSED, "what the bus gave as an agent's id is none", "Is it the bus you mean?"
            )
        return self._home() / "agents" / f"{name}.env"

    def _kept(self, secret: Path, agent: Mapping[str, Any]) -> str | None:
        """The token of the file, where it is this agent's on this bus and still works."""
        try:
            lines = secret.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return None
        values = dict(line.split("=", 1) for line in lines if "=" in line)
        token = values.get(TOKEN, "")
        if values.get(URL) != self.url or not _INERT.fullmatch(token):
            return None
        settings = Settings(self.url, self.session.settings.project, agent_token=token)
        try:
            me = type(self.session.client)(settings, "agent").call("system.me").value
        except CommandError:
            return None
        return token if me["actor"]["id"] == agent["id"] else None

    def _keep(self, secret: Path, token: str) -> None:
        ignored = secret.parent.parent / ".gitignore"
        if not ignored.exists():
            configs.write(ignored, "*\n")
        configs.write(secret, f"{URL}={self.url}\n{TOKEN}={token}\n", mode=configs.PRIVATE)

    def _skills(self) -> dict[Path, str]:
        """The skills and the note, where this client looks for them."""
        root = self.folder / self.kind.skills
        found = {
            root.joinpath(*path.split("/")[1:]): text
            for path, text in guide.files().items()
            if path.startswith("skills/")
        }
        notes = self.folder / self.kind.notes
        found[notes] = configs.between(notes, guide.snippet(), guide.BEGIN, guide.END)
        return found

    # Telling

    def _tell(self, answer: Mapping[str, Any]) -> None:
        agent = answer["agent"]
        roles = ", ".join(agent["roles"])
        screen.line(
            f"{screen.clean(agent['label'])} ({agent['id']}) works for {screen.clean(roles)} at {answer['url']}"
        )
        screen.line()
        if answer["written"]:
            for file in answer["written"]:
                screen.line(f"  written  {screen.clean(_near(Path(file), self.folder))}")
            screen.line()
            screen.line("Start it with:")
            screen.line(f"  {answer['load']}")
        else:
            screen.line(f"Put this into {screen.clean(_near(self.file, self.folder))}, or send --write:")
            screen.line()
            screen.line(answer["config"])
            screen.line("The token is shown this once. Start it with:")
            screen.line(f"  export {URL}={shlex.quote(self.url)} {TOKEN}={answer['environment'][TOKEN]}")
        screen.line(f"  {answer['start']}")


def _near(file: Path, folder: Path) -> str:
    """A path as it is written from here."""
    return str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file)
