"""The environment, read once: what a Lambda function (or the laptop's bus) is told from outside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

QUEUES = (
    "lease", "lease-dead", "barrier", "barrier-dead", "routing", "routing-dead", "dispatch-dead",
)  # fmt: skip
"""Logical names of the queues that exist; the environment maps each to a URL as ``INTERLOCK_QUEUE_<NAME>``."""


@dataclass(frozen=True, slots=True)
class Config:
    """Names of the deployed resources. Empty where this function was not given one (least privilege)."""

    table: str
    bucket: str
    queue_urls: Mapping[str, str]


def queue_variable(queue: str) -> str:
    """The environment variable that holds a queue's URL."""
    return "INTERLOCK_QUEUE_" + queue.upper().replace("-", "_")


@cache
def load() -> Config:
    """The configuration of this process."""
    env = os.environ
    return Config(
        table=env.get("INTERLOCK_TABLE", ""),
        bucket=env.get("INTERLOCK_BUCKET", ""),
        queue_urls={q: env[queue_variable(q)] for q in QUEUES if env.get(queue_variable(q))},
    )
