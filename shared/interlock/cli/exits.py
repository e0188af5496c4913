"""The exit codes: one table for every command."""

from __future__ import annotations

OK = 0
REFUSED = 1
"""The bus read the request and said no: 400, 404, 405, 413, 415, 422, 431, 500."""
USAGE = 2
"""The command line itself is wrong, or a file that configures it."""
NOTHING = 3
"""There is nothing to claim, or nothing is assigned."""
CONFLICT = 4
"""The state says no: 409, 412, 428."""
RIGHT = 5
"""The credential, or its rights: 401, 403."""
OWNER = 6
"""It waits for an owner."""
LATER = 75
"""Not now, the same call may succeed later: 429, 502, 503, 504, or the bus cannot be reached."""
INTERRUPTED = 130
"""Ctrl-C, as shells report it."""

LATER_STATUSES = frozenset({429, 502, 503, 504})

MEANINGS = {
    OK: "ok",
    REFUSED: "refused (400, 404, 405, 413, 415, 422, 431, 500)",
    USAGE: "usage",
    NOTHING: "nothing to claim or assigned",
    CONFLICT: "conflict (409, 412, 428)",
    RIGHT: "credential or right (401, 403)",
    OWNER: "waits for an owner",
    LATER: "later (429, 503, unreachable)",
}
"""The table as `interlock --help` prints it."""


def of_status(status: int) -> int:
    """The exit code for an HTTP status."""
    if status < 400:
        return OK
    if status in LATER_STATUSES:
        return LATER
    if status in {401, 403}:
        return RIGHT
    return CONFLICT if status in {409, 412, 428} else REFUSED


class CommandError(Exception):
    """A command ends with ``code`` and says ``detail`` and perhaps ``hint`` on standard error."""

    def __init__(self, code: int, detail: str, hint: str = "") -> None:
        self.code = code
        self.detail = detail
        self.hint = hint
        super().__init__(detail)


def usage(detail: str, hint: str = "") -> CommandError:
    """The caller's own mistake, found before anything was sent."""
    return CommandError(USAGE, detail, hint)
