"""`interlock mcp`: an MCP server on standard input and output that passes everything on to the bus."""

from __future__ import annotations

import os
import sys

import typer

from interlock.cli import stopping
from interlock.cli.command import Session, command
from interlock.cli.exits import OK

_ABOUT = """Serve MCP on standard input and output, for clients that start their servers.

Everything is passed on to the bus's own address (/mcp), so that both speak the same; clients that speak HTTP need no
process beside them. The token is the agent's, from INTERLOCK_TOKEN, a profile or credentials.json. A client's
configuration is:

\b
  {"mcpServers": {"interlock": {
     "command": "interlock", "args": ["mcp"],
     "env": {"INTERLOCK_URL": "http://127.0.0.1:8787", "INTERLOCK_TOKEN": "il_agt_…"}}}}

Whatever fails on the way answers the request as an error, with what to do about it. A call whose answer is lost is sent
again, under a key that lets it have one effect. Exit 0 when the input ends, on SIGTERM and on Ctrl-C."""


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(root, "mcp", text=_ABOUT, without=("json_output", "project", "token_stdin"))
    def mcp(session: Session) -> int:
        from interlock.cli import relay, stdio

        # standard output carries protocol and nothing else; whatever else is printed goes to standard error
        out, sys.stdout = sys.stdout, sys.stderr
        bus = relay.Relay(session.client.settings, session.side or "agent")
        stop = stopping.on_signals()
        source, target = sys.stdin.fileno(), out.fileno()
        stdio.serve(bus, lambda size: os.read(source, size), lambda data: os.write(target, data), stop)
        return OK
