"""Calls over HTTP: what is repeated, under which key, and what never leaves for elsewhere."""

import threading

import pytest
from tests.unit.cli_stub import AGENT, OWNER, Stub, cli, problem, serving

from interlock.cli import client as module
from interlock.cli.client import Client, RefusedError, UnreachableError
from interlock.cli.settings import Settings

GONE = "http://127.0.0.1:9"


def made(url, **more):
    slept = []
    return Client(Settings(url, "default", OWNER, AGENT), sleep=slept.append, **more), slept


def failing_first(times, refusal, value=None):
    """A bus that answers ``refusal`` so many times, then 200."""
    left = [times]

    def answer(_):
        left[0] -= 1
        return refusal if left[0] >= 0 else (200, value or {})

    return answer


@pytest.mark.parametrize("code", ["throttled", "store_unavailable"])
def test_a_post_is_sent_again_under_the_same_key(code):
    status = {"throttled": 429, "store_unavailable": 503}[code]
    with serving(Stub(failing_first(2, problem(status, code)))) as stub:
        bus, slept = made(stub.url)
        bus.call("claims.complete", {"fence": 1}, path={"job": "job_1"})
    keys = [one.key for one in stub.asked]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]
    assert [one.body for one in stub.asked] == [{"fence": 1}] * 3
    assert len(slept) == 2
    assert slept[0] < slept[1] * 2


def test_retry_after_is_waited_for():
    refusal = (*problem(429, "throttled"), {"Retry-After": "7"})
    with serving(Stub(failing_first(1, refusal))) as stub:
        bus, slept = made(stub.url)
        bus.call("system.me")
    assert slept == [7]


def test_a_retry_after_beyond_patience_ends_the_command():
    refusal = (*problem(429, "throttled"), {"Retry-After": "3600"})
    with serving(Stub(failing_first(1, refusal))) as stub:
        bus, slept = made(stub.url)
        with pytest.raises(RefusedError):
            bus.call("system.me")
    assert slept == []


def test_it_gives_up_after_a_few_attempts():
    with serving(Stub(lambda _: problem(503, "store_unavailable"))) as stub:
        bus, slept = made(stub.url)
        with pytest.raises(RefusedError) as refused:
            bus.call("system.me")
    assert refused.value.code == 75
    assert len(stub.asked) == module.ATTEMPTS
    assert len(slept) == module.ATTEMPTS - 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 422, 500])
def test_a_refusal_is_not_asked_for_twice(status):
    with serving(Stub(lambda _: problem(status, "x"))) as stub:
        bus, _ = made(stub.url)
        with pytest.raises(RefusedError):
            bus.call("jobs.create", {})
    assert len(stub.asked) == 1


def test_a_lost_answer_is_asked_for_again_under_the_same_key():
    with serving(Stub(failing_first(1, None, {"job": {}}))) as stub:
        bus, _ = made(stub.url)
        bus.call("jobs.create", {"summary": "x"})
    assert len({one.key for one in stub.asked}) == 1
    assert len(stub.asked) == 2


@pytest.mark.parametrize("operation", ["roles.update", "roles.delete"])
def test_what_carries_no_key_is_not_repeated_when_it_may_have_been_done(operation):
    with serving(Stub(failing_first(1, None))) as stub:
        bus, _ = made(stub.url)
        with pytest.raises(UnreachableError):
            bus.call(operation, {}, if_match='"v1"', path={"job": "job_1", "role": "qa"})
    assert len(stub.asked) == 1


def test_a_refused_connection_is_tried_again_whatever_the_method():
    bus, slept = made(GONE)
    with pytest.raises(UnreachableError) as silence:
        bus.call("roles.delete", path={"role": "qa"})
    assert silence.value.code == 75
    assert len(slept) == module.ATTEMPTS - 1


def test_a_credential_never_follows_a_redirect():
    with (
        serving(Stub()) as other,
        serving(Stub(lambda _: (307, {}, {"Location": other.url + "/v1/x"}))) as stub,
    ):
        bus, _ = made(stub.url)
        with pytest.raises(RefusedError):
            bus.call("system.me")
    assert other.asked == []


def test_open_operations_carry_no_credential():
    with serving(Stub()) as stub:
        made(stub.url)[0].call("system.health")
    assert "authorization" not in stub.asked[0].headers


def test_ids_are_quoted_in_paths():
    with serving(Stub()) as stub:
        made(stub.url)[0].call("jobs.get", path={"job": "../x?y#z/ü"})
    assert stub.asked[0].path == "/v1/projects/default/jobs/..%2Fx%3Fy%23z%2F%C3%BC"
    assert stub.asked[0].query == {}


def test_pages_go_on_to_the_end():
    def answer(asked):
        cursor = asked.query.get("cursor", ["0"])[0]
        return 200, {
            "items": [{"n": int(cursor)}],
            "next_cursor": str(int(cursor) + 1) if cursor != "3" else None,
        }

    with serving(Stub(answer)) as stub:
        found = list(made(stub.url)[0].items("jobs.list", {"status": ["failed", "blocked"]}))
    assert [one["n"] for one in found] == [0, 1, 2, 3]
    assert all(one.query["status"] == ["failed", "blocked"] for one in stub.asked)


def test_the_key_of_an_invocation_can_be_chosen():
    with serving(Stub(lambda _: problem(409, "paused"))) as stub:
        cli("job", "next", "--key", "mine", url=stub.url, token=AGENT)
        cli("job", "next", url=stub.url, token=AGENT)
        cli("job", "next", url=stub.url, token=AGENT)
    keys = [one.key for one in stub.asked]
    assert keys[0] == "mine"
    assert len(set(keys)) == 3


def test_two_threads_may_share_a_client():
    with serving(Stub(lambda asked: (200, {"path": asked.path}))) as stub:
        bus, _ = made(stub.url)
        wrong = []

        def ask(number):
            for _ in range(20):
                if (
                    not bus.call("jobs.get", path={"job": f"job_{number}"})
                    .value["path"]
                    .endswith(f"job_{number}")
                ):
                    wrong.append(number)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
