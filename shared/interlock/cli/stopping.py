"""How a command that runs until it is told otherwise is told."""

from __future__ import annotations

import signal
import sys
import threading


def on_signals() -> threading.Event:
    """An event that the first SIGTERM or Ctrl-C sets; a second Ctrl-C ends the process as usual."""
    stop = threading.Event()

    def ask(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        stop.set()

    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), ask)
        if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            signal.signal(signal.SIGHUP, ask)  # nohup leaves it ignored
    return stop
