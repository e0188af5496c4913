"""What every test process begins with."""

from __future__ import annotations

import os
import signal


def pytest_configure() -> None:
    """Take signals as a terminal's process does.

    A run that was started in the background, or by nohup, ignores them, and so would every program that it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: the acceptance tests mostly wait for processes of their own."""
    return (os.cpu_count() or 1) + 1
