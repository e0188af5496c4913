"""Logs and metrics: one structured line per request, no payloads; EMF metrics on AWS only.

On AWS the line is Powertools' JSON, locally whatever the runner's handlers make of the record. Metrics carry the
operation and nothing that grows with the number of callers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from interlock.domain.identity import Actor

log = logging.getLogger("interlock")
ON_AWS = "AWS_LAMBDA_FUNCTION_NAME" in os.environ and "INTERLOCK_LOCAL" not in os.environ


def _configure() -> None:
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(LambdaPowertoolsFormatter(service="interlock"))
    log.handlers = [handler]
    log.setLevel(os.environ.get("POWERTOOLS_LOG_LEVEL", "INFO"))
    log.propagate = False


if ON_AWS:
    _configure()


def request(
    name: str, event: Mapping[str, Any], response: Mapping[str, Any], actor: Actor, request_id: str, ms: float
) -> None:
    """One line for a served request."""
    status = int(response["statusCode"])
    if log.isEnabledFor(logging.INFO):
        http = (event.get("requestContext") or {}).get("http") or {}
        log.info(
            "request",
            extra={
                "operation": name,
                "method": http.get("method"),
                "path": event.get("rawPath"),
                "status": status,
                "ms": round(ms, 1),
                "actor": actor.id or None,
                "request_id": request_id,
            },
        )
    if ON_AWS:
        _metrics(name, status, ms)


def _metrics(name: str, status: int, ms: float) -> None:
    from aws_lambda_powertools.metrics import MetricUnit, single_metric

    metric = {
        "namespace": "Interlock",
        "default_dimensions": {"operation": name, "outcome": f"{status // 100}xx"},
    }
    with single_metric(name="Latency", unit=MetricUnit.Milliseconds, value=ms, **metric):  # type: ignore[arg-type]  # typed too narrowly there
        pass


def failure(name: str, request_id: str, error: BaseException) -> None:
    """A defect: the trace goes to the log, never to the caller."""
    log.error("failed", exc_info=error, extra={"operation": name, "request_id": request_id})


def incident(what: str, **fields: Any) -> None:
    """Something that an operator should see."""
    log.warning(what, extra=fields)
