"""What AWS answers when a call fails, in the store's words."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from interlock.errors import StoreError

T = TypeVar("T")

TRIES = 6
"""How often a call that another transaction or a limit turned away is made before the caller hears of it."""

_FIRST_PAUSE = 0.02
_THROTTLED = frozenset({
    "ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded", "RequestLimitExceeded",
    "RequestThrottled", "RequestThrottledException", "SlowDown", "Throttling", "ThrottlingError",
    "ThrottlingException", "TooManyRequestsException", "OverLimit", "LimitExceededException",
})  # fmt: skip
_CONFLICTS = frozenset(
    {"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"}
)
_jitter = random.SystemRandom()


def code_of(error: Any) -> str:
    """The code of a botocore ClientError."""
    return str(error.response.get("Error", {}).get("Code", ""))


def transient(code: str) -> bool:
    """Whether a call or a transaction's part with this code may succeed in a moment."""
    return code in _THROTTLED or code in _CONFLICTS


@contextmanager
def translated() -> Iterator[None]:
    """Turn botocore's errors into StoreError, or ValueError where the request itself is wrong."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = code_of(error)
        if code == "ValidationException":
            raise ValueError(str(error)) from error
        if transient(code):
            raise throttled(code) from error
        raise StoreError("store_unavailable", f"AWS answered {code}.") from error
    except BotoCoreError as error:
        raise StoreError("store_unavailable", f"AWS did not answer: {type(error).__name__}.") from error


def throttled(code: str) -> StoreError:
    """The error for a call that AWS turned away for now."""
    return StoreError("throttled", f"AWS answered {code}.")


def pause(attempt: int) -> None:
    """Wait before try number ``attempt`` + 2, at random, longer each time."""
    time.sleep(_jitter.uniform(0, _FIRST_PAUSE * 2**attempt))


def patiently(call: Callable[[], T], again: Callable[[Any], bool]) -> T:
    """Make a call, and again while ``again`` says so of its ClientError; the last error is raised."""
    from botocore.exceptions import ClientError

    for attempt in range(TRIES - 1):
        try:
            return call()
        except ClientError as error:
            if not again(error):
                raise
        pause(attempt)
    return call()
