"""One process that is the whole bus: store, dispatcher, consumers, timers and HTTP, put together."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from interlock.app.bootstrap import dead_tokens, ensure_local
from interlock.app.call import Bus
from interlock.domain import ids
from interlock.domain.identity import INSTALLATION, write_token
from interlock.edges import runtime
from interlock.local import engines, folder, server, template
from interlock.local.door import Door
from interlock.local.engines import Engine
from interlock.local.folder import Credentials
from interlock.local.gateway import Target
from interlock.local.loops import Consume, Dispatch, Every, Fire, Idle, Loop
from interlock.local.pulse import BEAT, Pulse
from interlock.local.routing import Router
from interlock.local.template import Function, Handler, Template

log = logging.getLogger("interlock.up")

PROJECT = "default"
STOP_SECONDS = 10.0
SWEEP_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and on what a local bus runs. Port 0 takes a free one."""

    data: Path = Path(".interlock")
    host: str = "127.0.0.1"
    port: int = 8787
    engine: str = "embedded"
    threads: int = server.THREADS


class LocalBus:
    """A bus that serves until it is closed; a context manager."""

    def __init__(self, settings: Settings, *, clock: Callable[[], int] = runtime.wall_clock) -> None:
        """Start everything, in an order in which nothing is served before all of it works.

        Raises FolderError, EngineError, TemplateError, PortBusyError, StoreError; what was begun is undone.
        """
        with ExitStack() as begun, _threads_on_one_cpu():
            held = folder.hold(settings.data)
            begun.callback(held.close)
            sock = server.bind(settings.host, settings.port)
            begun.callback(sock.close)
            engine = engines.open_engine(settings.engine, settings.data, clock)
            begun.callback(engine.close)
            self.bus = Bus(engine.store, clock, secrets.token_bytes, time.sleep)
            runtime.use(self.bus)
            begun.callback(runtime.use, None)
            credentials = held.credentials(lambda: _new_credentials(self.bus))
            ensure_local(self.bus, credentials.owner_token, credentials.agent_token)
            for dead in dead_tokens(self.bus, credentials.owner_token, credentials.agent_token):
                log.warning(
                    "a token in credentials.json no longer works (%s); move the file away to get new ones",
                    dead,
                )
            pulse = Pulse(self.bus) if engine.ours else None
            before = pulse.check if pulse else _nothing
            read = template.read(template.find())
            handlers = _Handlers()
            loops = _loops(read, handlers, engine, self.bus, before)
            if pulse:
                pulse.beat()
                loops.append(Loop("pulse", _beat(pulse), Every(BEAT / 1000)))
            if engine.sweep:
                loops.append(Loop("sweep", _sweep(engine.sweep), Every(SWEEP_SECONDS)))
            begun.callback(_stop, loops)
            door = Door(engine.served) if engine.served else None
            router = _router(read, handlers)
            http = server.Server(sock, router, before=before, threads=settings.threads, door=door)
            begun.callback(http.close)
            for loop in loops:
                loop.start()
            http.start()
            self.url = http.url
            self.credentials = replace(credentials, url=http.url)
            held.save(self.credentials)
            held.announce(http.url)
            self._begun = begun.pop_all()

    def close(self) -> None:
        """Finish what has begun: requests, then batches, then the store; let the folder go."""
        self._begun.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _threads_on_one_cpu() -> Iterator[None]:
    """Threads that are started inside stay on the CPU that runs now, where the system offers that.

    Only one of them can run Python at a time. Spread over CPUs they wake each other in vain at every call into
    SQLite: measured on two CPUs with eight clients, 7 ms of CPU per create, claim and complete instead of 4.
    """
    if sys.platform != "linux":
        yield
        return
    allowed = os.sched_getaffinity(0)
    try:
        running = int(Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()[36])
        os.sched_setaffinity(0, {running})
    except (OSError, ValueError, IndexError):  # a system that does not tell, or does not let us
        yield
        return
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class _Handlers:
    """Loads each function's handler once."""

    def __init__(self) -> None:
        self._loaded: dict[str, Handler] = {}

    def __call__(self, function: Function) -> Handler:
        if function.name not in self._loaded:
            self._loaded[function.name] = template.load_handler(function)
        return self._loaded[function.name]


def _router(read: Template, handlers: _Handlers) -> Router[Target]:
    return Router(
        (route.method, route.path, Target(route.function, handlers(route.function))) for route in read.routes
    )


def _loops(
    read: Template, handlers: _Handlers, engine: Engine, bus: Bus, before: Callable[[], None]
) -> list[Loop]:
    loops: list[Loop] = []
    if read.stream is not None:
        dispatch = Dispatch(engine.feed, read.stream, handlers(read.stream.function), before, bus.clock)
        loops.append(Loop("dispatcher", dispatch, engine.idle(None)))
    for source in read.queues:
        consume = Consume(bus.store.queues, source, handlers(source.function), before, bus.clock)
        loops.append(Loop(f"queue-{source.queue}", consume, engine.idle(source.queue)))
    for schedule in read.schedules:
        idle: Idle = Every(schedule.seconds)
        fire = Fire(schedule, handlers(schedule.function), before)
        loops.append(Loop(f"schedule-{schedule.function.name}", fire, idle))
    return loops


def _beat(pulse: Pulse) -> Callable[[], bool]:
    def step() -> bool:
        pulse.beat()
        return False

    return step


def _sweep(sweep: Callable[[], int]) -> Callable[[], bool]:
    def step() -> bool:
        return sweep() > 0

    return step


def _stop(loops: list[Loop]) -> None:
    for loop in loops:
        loop.stop()
    deadline = time.monotonic() + STOP_SECONDS
    for loop in loops:
        loop.join(max(0.0, deadline - time.monotonic()))


def _nothing() -> None:
    """Nothing has to happen before a request."""


def _new_credentials(bus: Bus) -> Credentials:
    """Tokens of identities that do not exist yet; ``url`` is filled in when the bus serves."""
    now = bus.clock()
    owner, agent = ids.ulid("own", now, bus.entropy(10)), ids.ulid("agt", now, bus.entropy(10))
    return Credentials(
        url="",
        project=PROJECT,
        owner=owner,
        owner_token=write_token("owner", INSTALLATION, owner, secrets.token_urlsafe(32)),
        agent=agent,
        agent_token=write_token("agent", PROJECT, agent, secrets.token_urlsafe(32)),
    )
