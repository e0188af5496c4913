"""`interlock events --follow` against a real bus: a process that prints what comes, also over a restart of the bus."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest
from tests.acceptance.cli_bus import LIMIT, PROGRAM, RunningBus, eventually, lines, running_bus

from interlock.cli.demo import crew

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    with running_bus(tmp_path_factory.mktemp("events")) as running:
        yield running


class Follower:
    """`interlock events --follow` in a process of its own, and what it has said so far."""

    def __init__(self, bus, *args):
        self.process = bus.start("events", "--follow", *args, environment={})
        self.told, self.notes = [], []
        self.readers = [
            threading.Thread(target=self.read, args=(stream, into))
            for stream, into in ((self.process.stdout, self.told), (self.process.stderr, self.notes))
        ]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, into):
        with stream:
            for line in stream:
                into.append(line)

    def about(self, job):
        """The types of a job's events, as they were told."""
        return [one["type"] for one in lines("".join(self.told)) if one["entity"] == f"job/{job}"]

    def end(self, number=signal.SIGINT):
        """Its exit code after a signal."""
        self.process.send_signal(number)
        code = self.process.wait(LIMIT)
        for reader in self.readers:
            reader.join()
        return code


@pytest.fixture
def follow(bus):
    started = []

    def start(*args, of=bus):
        started.append(Follower(of, *args))
        return started[-1]

    yield start
    for follower in started:
        follower.end(signal.SIGKILL)


def a_job_that_ends(bus, *reason):
    job = bus.publish("followed", role="ops")
    bus.json("job", "cancel", job, "--reason", *(reason or ("enough",)))
    return job


def test_what_comes_is_told_once_until_ctrl_c(bus, follow):
    before = a_job_that_ends(bus)
    eventually(lambda: lines(bus.il("events", "--last", "1", "--json").out)[0]["type"] == "job.cancelled")
    follower = follow("--json", "--last", "2")
    eventually(lambda: len(follower.about(before)) == 2)
    jobs = [a_job_that_ends(bus) for _ in range(3)]
    eventually(lambda: len(follower.told) >= 8)
    # one more event, and the overlap is read several times in between
    last = a_job_that_ends(bus)
    eventually(lambda: follower.about(last) == ["job.created", "job.cancelled"])
    assert follower.end() == 130
    assert all(follower.about(job) == ["job.created", "job.cancelled"] for job in [before, *jobs, last])
    assert len(follower.told) == 10
    assert follower.notes == []


def test_the_ring_is_followed_as_data(bus, follow):
    follower = follow("--ring", "--last", "1")
    eventually(lambda: follower.told)
    job = a_job_that_ends(bus, "\x1b[2Jover\u202e")
    of_job = lambda: [one for one in lines("".join(follower.told)) if one["ticket"] == job]  # noqa: E731
    eventually(lambda: len(of_job()) == 2)
    assert follower.end() == 130
    created, cancelled = of_job()
    assert set(created) == {"ts", "tenant", "worker", "level", "msg", "ticket"}
    assert (created["tenant"], created["worker"], created["level"]) == ("default", "local owner", "info")
    assert cancelled["level"] == "warn"
    assert cancelled["msg"] == "job cancelled, published to cancelled: \x1b[2Jover\u202e"
    assert "".join(follower.told).isascii()


def test_a_reader_that_has_enough_ends_it_quietly(bus):
    until = time.monotonic() + LIMIT
    with subprocess.Popen(
        f"{' '.join(PROGRAM)} events --follow --last 1 | head -n 2; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as shell:
        # the second line ends the reader, the next one finds that nobody reads
        while shell.poll() is None:
            assert time.monotonic() < until
            a_job_that_ends(bus)
            with contextlib.suppress(subprocess.TimeoutExpired):
                shell.wait(0.5)
        told = shell.stdout.read().splitlines()
        errors = shell.stderr.read()
    assert (len(told), told[-1]) == (3, "0"), (told, errors)
    assert errors == ""


def test_following_goes_on_when_the_bus_was_killed_and_is_back(tmp_path, monkeypatch, follow):
    monkeypatch.chdir(tmp_path)
    data, log = tmp_path / ".interlock", tmp_path / "bus.log"
    process, greeting = crew.start_bus(data, 0, log)
    try:
        bus = RunningBus(tmp_path, greeting)
        follower = follow("--json", of=bus)
        first = a_job_that_ends(bus)
        eventually(lambda: len(follower.about(first)) == 2)
        process.kill()
        process.wait()
        eventually(lambda: follower.notes)
        process, _ = crew.start_bus(data, urlsplit(bus.url).port, log)
        second = a_job_that_ends(bus)
        eventually(lambda: len(follower.about(second)) == 2)
        assert follower.end() == 130
    finally:
        crew.end(process)
    assert follower.about(first) == follower.about(second) == ["job.created", "job.cancelled"]
    assert ["asking again" in note for note in follower.notes] == [True, False], follower.notes
    told = [(one["entity"], one["seq"]) for one in lines("".join(follower.told))]
    assert len(told) == len(set(told))
