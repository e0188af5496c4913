"""What an answer weighs, and bodies that are read window by window: nothing is lost, whatever it is made of."""

from __future__ import annotations

import base64
import random

import pytest
from tests.sim.speaker import Speaker
from tests.sim.world import world

from interlock.edges.mcp import brief, on_jobs

RNG = random.Random(1)
NOISE = base64.b64encode(RNG.randbytes(6_000)).decode()
TEXTS = {
    "prose": "Count the attempt of a lapsed lease before the next claim. " * 150,
    "base64": NOISE,
    "ids": " ".join(f"job_{NOISE[at : at + 26]}" for at in range(0, 7_000, 26)),
    "Japanese": "作業を始める前に必ず請求してください。" * 300,
    "emoji": "😀🛠" * 2_000,
    "quotes": '"\\\n' * 2_000,
    "half characters": "\ud800" * 4_000,
    "one letter": "a" * 9_000,
}


@pytest.mark.parametrize(
    "known",
    ["lapsed leases", "a_long_name_of_a_function_that_says_it_all", "src/interlock/edges/mcp", "short1"],
)
def test_words_weigh_their_bytes(known: str) -> None:
    assert brief.weight(known) == len(known) + 2


@pytest.mark.parametrize("unknown", ["job_01m8q43s400grq5386a0eqmn3h", "ab" * 31 + "c1", NOISE[:400]])
def test_what_no_tokenizer_knows_weighs_twice(unknown: str) -> None:
    assert brief.weight({"id": unknown}) == len(unknown) * 2 + len('{"id":""}')


@pytest.mark.parametrize("kind", TEXTS)
def test_windows_put_together_are_the_whole(kind: str) -> None:
    whole, offset, seen = {"text": TEXTS[kind]}, 0, ""
    written = brief.text(whole)
    while offset < len(written):
        shown = brief.window(whole, offset)
        assert (shown["from"], shown["of"]) == (offset, len(written))
        assert shown["to"] > offset
        assert brief.weight(shown["text"]) <= brief.ROOM // 2
        seen, offset = seen + shown["text"], shown["to"]
    assert seen == written
    assert brief.window(whole, offset + 9)["text"] == ""


@pytest.mark.parametrize("kind", sorted(TEXTS.keys() - {"half characters"}))
def test_a_window_reaches_the_client_uncut(kind: str) -> None:
    w = world()
    job = w.job(context={"text": TEXTS[kind]})
    answer = Speaker(w).ok("get_job", job=job, part="context")
    assert "cut" not in answer
    assert answer["window"] == {"part": "context", **brief.window({"text": TEXTS[kind]}, 0)}


def test_the_page_that_is_listed_by_default_fits() -> None:
    w = world()
    for number in range(30):
        w.job(summary=f"Count the attempt of lapsed lease {number} before the next claim", priority="high")
    answer = Speaker(w).ok("list_jobs")
    assert brief.weight(answer) <= brief.ROOM
    assert len(answer["jobs"]) == on_jobs.LISTED
