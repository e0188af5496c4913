"""Where the bus's log goes on a laptop: one human line per request on standard error, or JSON as on AWS."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

FORMATS = ("human", "json")
_REQUEST = ("method", "path", "status", "ms", "actor", "request_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(form: str) -> None:
    """Send the log to standard error in one of FORMATS. Standard output stays free for what was asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Human())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("interlock").setLevel(logging.INFO)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a queue is what waitress has one for


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        if hasattr(record, "status"):
            given = (getattr(record, name, None) for name in _REQUEST)
            method, path, status, took, actor, request = ("-" if value is None else value for value in given)
            shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(path))
            line = f"{clock} {method} {shown} {status} {took} ms {actor} {request}"
        else:
            line = f"{clock} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "level": record.levelname,
            "location": f"{record.funcName}:{record.lineno}",
            "message": record.getMessage(),
            "timestamp": f"{at}.{int(record.msecs):03d}Z",
            "service": record.name,
        }
        line.update({name: value for name, value in vars(record).items() if name not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)
