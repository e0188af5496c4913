"""Runs the official conformance suite against the protocol core behind the local HTTP server.

``python -m tests.conformance.run NODE SUITE``: NODE is a Node.js 22 or newer, SUITE the suite's ``dist/index.js`` (npm:
``@modelcontextprotocol/conformance``, the version that .ci/run pins). Every scenario that a revision requires is run, the
tasks extension's among them; what fails in 2025-11-25 by design is named in ``expected-2025-11-25.yml``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.fixtures import server

from interlock.edges import http
from interlock.edges.mcp import transport
from interlock.local import server as serving
from interlock.local.gateway import Target
from interlock.local.routing import Router
from interlock.local.template import Function

EXPECTED = Path(__file__).with_name("expected-2025-11-25.yml")
REVISIONS: Mapping[str, tuple[str, ...]] = {
    "2026-07-28": (),
    "2025-11-25": ("--expected-failures", str(EXPECTED)),
}
LIMIT = 300
"""Seconds for one revision."""
_TOTAL = re.compile(r"^Total: (\d+) passed, (\d+) failed", re.MULTILINE)
_SCENARIO = re.compile(r"^[✓✗].*|^.*(?:baseline|[Uu]nexpected).*", re.MULTILINE)


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """The handler of ``/mcp`` with the suite's fixtures: what serve.py does, for everybody."""
    request = http.Request(event, "conformance")
    if request.method != "POST":
        return {"statusCode": 405, "headers": {"allow": "POST"}, "body": ""}
    if transport.from_foreign_page(request.headers, secure=False):
        return {"statusCode": 403, "headers": {"content-type": "application/json"}, "body": "{}"}
    try:
        message = json.loads(request.body())
    except ValueError as error:
        return transport.unreadable(str(error))
    return transport.answer(FIXTURES, message, request.headers, None, _failed)


FIXTURES = server()


def _failed(error: Exception) -> None:
    print(f"the server failed: {error!r}", file=sys.stderr, flush=True)


def main() -> int:
    """Run both revisions; the exit code."""
    node, suite = sys.argv[1:3]
    function = Function("Mcp", Path(__file__), "handler", 30, 512)
    router = Router([("ANY", "/mcp", Target(function, handler))])
    served = serving.Server(serving.bind("127.0.0.1", 0), router, before=lambda: None)
    served.start()
    passed = failed = 0
    sound, plain = True, {**os.environ, "NO_COLOR": "1"}
    try:
        for revision, more in REVISIONS.items():
            command = [node, suite, "server", "--url", f"{served.url}/mcp", "--requirements", revision, *more]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, check=False, env=plain
            )
            total = _TOTAL.search(done.stdout)
            print(f"{revision}: exit code {done.returncode}", *_SCENARIO.findall(done.stdout), sep="\n  ")
            if total is None or done.returncode:
                sound = False
                print(done.stdout[-6_000:], done.stderr[-2_000:], sep="\n")
            if total is not None:
                print(f"  in all {total[1]} checks passed, {total[2]} failed")
                passed += int(total[1])
                failed += int(total[2])
    finally:
        served.close()
    print(f"{passed} checks passed, {failed} failed{' as expected' if sound else ''}")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
