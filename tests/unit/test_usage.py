"""What was used: how reports are merged, what they add up to, and what is over a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.domain import usage
from interlock.domain.job import Job
from interlock.edges.models import Budget, DailyBudget, Usage
from interlock.errors import InterlockError

NOW = 1_796_072_400_000
SECOND = 1_000


def job(**values: Any) -> Job:
    always = {
        "id": "job_1", "project": "default", "status": "in_progress", "role": "developer", "summary": "s", "priority": 20,
        "source": "owner:o", "source_label": "o", "created_at": NOW, "updated_at": NOW, "fence": 1, "assignee": "agt_1",
        "started_at": NOW,
    }  # fmt: skip
    return Job(**{**always, **values})


def told(first: Job, reports: Sequence[tuple[int, Mapping[str, int]]]) -> Job:
    """The job after these reports, each under a fence that is never less than the one before."""
    for fence, report in reports:
        first = replace(first, fence=fence)
        first = replace(first, usage=usage.merged(first, report))
    return first


AMOUNTS = st.dictionaries(st.sampled_from(usage.AMOUNTS), st.integers(0, 10**12))
REPORTS = st.lists(AMOUNTS, max_size=8)


class TestMerging:
    """Reports are cumulative: under one fence the largest of each amount counts, once."""

    @given(REPORTS, st.randoms(use_true_random=False))
    def test_any_order_with_some_of_them_twice_gives_the_maximum(self, reports: Any, random: Any) -> None:
        sent = [*reports, *(each for each in reports if random.random() < 0.5)]
        random.shuffle(sent)
        after = told(job(), [(1, each) for each in sent])
        most = {name: max((each.get(name, 0) for each in reports), default=0) for name in usage.AMOUNTS}
        assert usage.reported(after) == {name: value for name, value in most.items() if value}

    @given(st.lists(st.tuples(st.integers(1, 4), AMOUNTS), max_size=10))
    def test_over_fences_the_maxima_add_up_and_nothing_ever_falls(
        self, reports: list[tuple[int, dict[str, int]]]
    ) -> None:
        reports = sorted(reports, key=lambda each: each[0])
        after, before = job(), dict.fromkeys(usage.AMOUNTS, 0)
        for each in reports:
            after = told(after, [each])
            total = {name: usage.reported(after).get(name, 0) for name in usage.AMOUNTS}
            assert all(total[name] >= before[name] for name in usage.AMOUNTS)
            before = total
        most = [
            max((given.get(name, 0) for fence, given in reports if fence == wanted), default=0)
            for name in usage.AMOUNTS
            for wanted in range(1, 5)
        ]
        assert sum(before.values()) == sum(most)

    @given(st.lists(st.tuples(st.integers(1, 4), AMOUNTS), max_size=10))
    def test_what_the_day_gains_is_what_the_job_gains(
        self, reports: list[tuple[int, dict[str, int]]]
    ) -> None:
        """The sum of what the day's counter gains is always what the head says."""
        after, day = job(), dict.fromkeys(usage.BUDGETED, 0)
        for fence, report in sorted(reports, key=lambda each: each[0]):
            now = replace(after, fence=fence)
            merged = usage.merged(now, report)
            gained = usage.gained(now, merged)
            assert all(value > 0 for value in gained.values())
            day = {name: day[name] + more for name, more in usage.counted(gained).items()}
            after = replace(now, usage=merged)
        assert day == usage.counted(usage.reported(after))

    @pytest.mark.parametrize("nothing", [{}, {"usd": 0}, {"input_tokens": None}])
    def test_a_report_of_nothing_changes_no_amount(self, nothing: dict[str, Any]) -> None:
        after = told(job(), [(1, {"usd": 5})])
        assert usage.merged(after, nothing) == after.usage
        assert usage.gained(after, usage.merged(after, nothing)) == {}

    def test_the_model_is_the_latest_that_was_named(self) -> None:
        after = told(job(), [(1, {"model": "a"}), (1, {"model": "b", "usd": 1}), (2, {"usd": 1})])  # type: ignore[dict-item]  # a report may name its model
        assert after.usage == {"fence": 2, "now": {"usd": 1}, "past": {"usd": 1}, "model": "b"}

    def test_a_claim_begins_at_nothing(self) -> None:
        """The same agent, the same amounts, a new fence: used again."""
        after = told(job(), [(1, {"usd": 5}), (3, {"usd": 5}), (4, {"usd": 2})])
        assert usage.reported(after) == {"usd": 12}
        assert after.usage == {"fence": 4, "now": {"usd": 2}, "past": {"usd": 10}}


class TestLineages:
    """A retry carries what the jobs before it used; it is shown apart, and counts against the budget."""

    @given(st.lists(st.tuples(AMOUNTS, st.integers(0, 10**6)), min_size=1, max_size=4), AMOUNTS)
    def test_all_that_was_used_is_handed_on(self, lives: Any, last: dict[str, int]) -> None:
        current = job(status="completed")
        for amounts, metered in lives:
            done = replace(told(current, [(1, amounts)]), metered=metered)
            current = job(status="completed", usage=usage.handed_on(done))
        wanted = {name: sum(each.get(name, 0) for each, _ in lives) for name in usage.AMOUNTS}
        assert usage.carried(current) == {name: value for name, value in wanted.items() if value}
        assert usage.reported(current) == {}
        after = told(current, [(1, last)])  # a report leaves what was carried
        assert usage.carried(after) == usage.carried(current)
        total = {name: wanted[name] + last.get(name, 0) for name in usage.AMOUNTS}
        assert usage.spent(after, NOW) == usage.counted(total)
        limited = replace(after, budget={"seconds": 1, "count": "metered"})
        assert usage.spent(limited, NOW) == {"seconds": sum(time for _, time in lives)}

    def test_nothing_is_handed_on_where_nothing_was_used(self) -> None:
        assert usage.handed_on(job(status="completed")) is None


class TestBudgets:
    @pytest.mark.parametrize(
        ("amounts", "over"),
        [
            ({"usd": 2_000_000}, None),
            ({"usd": 2_000_001}, "2.000001 USD of 2 USD"),
            ({"input_tokens": 60, "output_tokens": 40}, None),
            ({"input_tokens": 61, "output_tokens": 40}, "101 tokens of 100 tokens"),
            ({"usd": 3_500_000, "seconds": 9_000, "input_tokens": 101}, "101 tokens of 100 tokens, 3.5 USD of 2 USD"),
            ({"seconds": 10**9}, None),
        ],
    )  # fmt: skip
    def test_what_is_reported_is_over_it_when_it_is_more(self, amounts: Any, over: str | None) -> None:
        limited = job(budget={"tokens": 100, "usd": 2_000_000, "count": "reported"})
        assert usage.over(told(limited, [(1, amounts)]), NOW + 10**6) == over

    def test_metered_time_counts_the_stretch_in_progress(self) -> None:
        limited = job(budget={"seconds": 5_000, "count": "metered"}, metered=2_000)
        assert usage.over(limited, NOW + 3_000) is None
        assert usage.over(limited, NOW + 3_001) == "5.001 s of 5 s"
        resumed = replace(limited, running=NOW + 10_000)
        assert usage.metered(resumed, NOW + 10_500) == 2_500
        assert usage.metered(resumed, NOW) == 2_000, "a clock that went back meters nothing"
        blocked = replace(limited, status="blocked")
        assert usage.over(blocked, NOW + 10**9) is None

    def test_reports_do_not_count_where_metered_time_does(self) -> None:
        limited = job(budget={"seconds": 5_000, "count": "metered"})
        assert usage.over(told(limited, [(1, {"seconds": 10**9, "usd": 10**9})]), NOW) is None

    def test_without_a_budget_nothing_is_over(self) -> None:
        assert usage.over(told(job(), [(1, {"usd": 10**12})]), NOW) is None
        assert usage.beyond(None, {"usd": 1}) == []

    @given(AMOUNTS, AMOUNTS)
    def test_once_over_it_stays_over(self, first: dict[str, int], more: dict[str, int]) -> None:
        limited = job(budget={"tokens": 5 * 10**11, "usd": 5 * 10**11, "count": "reported"})
        before = told(limited, [(1, first)])
        after = told(before, [(1, more)])
        assert usage.over(before, NOW) is None or usage.over(after, NOW) is not None


class TestRaising:
    SPENT = job(
        budget={"tokens": 100, "usd": 2_000_000, "count": "reported"},
        usage={"fence": 1, "now": {"input_tokens": 150, "usd": 1_500_000}},
    )

    def test_to_what_the_data_says(self) -> None:
        assert usage.raised(self.SPENT, {"tokens": 151}, NOW) == {
            "tokens": 151,
            "usd": 2_000_000,
            "count": "reported",
        }
        assert usage.raised(self.SPENT, {"tokens": 200, "usd": 1.75, "seconds": 0.5}, NOW) == {
            "tokens": 200, "usd": 1_750_000, "seconds": 500, "count": "reported",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("data", "path"),
        [
            (None, "data"), ({}, "data"), ([], "data"), ("more", "data"), (5, "data"), ({"dollars": 5}, "data"),
            ({"tokens": 500, "count": "metered"}, "data"),
            ({"tokens": 150}, "data/tokens"), ({"tokens": 0}, "data/tokens"), ({"tokens": -1}, "data/tokens"),
            ({"tokens": True}, "data/tokens"), ({"tokens": 200.0}, "data/tokens"), ({"tokens": "200"}, "data/tokens"),
            ({"tokens": None}, "data/tokens"), ({"tokens": 10**12 + 1}, "data/tokens"), ({"tokens": 10**400}, "data/tokens"),
            ({"usd": 5}, "data/tokens"), ({"tokens": 200, "usd": 1.5}, "data/usd"), ({"tokens": 200, "usd": -0.1}, "data/usd"),
            ({"tokens": 200, "usd": float("nan")}, "data/usd"), ({"tokens": 200, "usd": float("inf")}, "data/usd"),
            ({"tokens": 200, "usd": True}, "data/usd"), ({"tokens": 200, "usd": 10**6 + 1}, "data/usd"),
            ({"tokens": 200, "seconds": 0}, "data/seconds"), ({"tokens": 200, "seconds": {}}, "data/seconds"),
        ],
        ids=str,
    )  # fmt: skip
    def test_what_is_no_budget_or_does_not_help_is_refused(self, data: Any, path: str) -> None:
        with pytest.raises(InterlockError) as refused:
            usage.raised(self.SPENT, data, NOW)
        assert refused.value.code == "invalid"
        assert [error.path for error in refused.value.errors] == [path]

    def test_metered_time_is_raised_in_seconds_only(self) -> None:
        limited = job(budget={"seconds": 5_000, "count": "metered"}, metered=6_000, status="blocked")
        assert usage.raised(limited, {"seconds": 6.5}, NOW) == {"seconds": 6_500, "count": "metered"}
        for data in ({"seconds": 6}, {"seconds": 7, "tokens": 5}, {"usd": 3}):
            with pytest.raises(InterlockError):
                usage.raised(limited, data, NOW)


class TestInput:
    """What callers may send: numbers of dollars and seconds, kept as integers, nothing lost."""

    @pytest.mark.parametrize(
        ("name", "sent", "kept"),
        [
            ("usd", 0, 0), ("usd", 1, 1_000_000), ("usd", 0.1 + 0.2, 300_000), ("usd", 0.0000001, 1), ("usd", 10**6, 10**12),
            ("seconds", 1.5, 1_500), ("seconds", 0.0001, 1), ("seconds", 0.0, 0), ("seconds", 10**8, 10**11),
            ("input_tokens", 0, 0), ("input_tokens", 10**12, 10**12), ("output_tokens", 7, 7),
        ],
    )  # fmt: skip
    def test_amounts(self, name: str, sent: Any, kept: int) -> None:
        found = getattr(Usage.model_validate({name: sent}, strict=True), name)
        assert found == kept
        assert type(found) is int

    @pytest.mark.parametrize("model", [Usage, Budget, DailyBudget])
    @pytest.mark.parametrize(
        "value", [-1, -0.1, True, False, float("nan"), float("inf"), -float("inf"), "1", [], {}, 10**13, 1e300, 10**400], ids=str
    )  # fmt: skip
    def test_amounts_that_are_none(self, model: Any, value: Any) -> None:
        tokens = "input_tokens" if model is Usage else "tokens"
        for name in (tokens, "usd", "seconds"):
            with pytest.raises(ValidationError):
                model.model_validate({name: value}, strict=True)

    @pytest.mark.parametrize("value", [1.0, 0.5])
    def test_tokens_are_whole(self, value: float) -> None:
        with pytest.raises(ValidationError):
            Usage.model_validate({"input_tokens": value}, strict=True)

    @pytest.mark.parametrize("empty", [{}, {"tokens": None}, {"usd": None, "seconds": None}])
    def test_a_budget_limits_something(self, empty: Any) -> None:
        for model in (Budget, DailyBudget):
            with pytest.raises(ValidationError, match="at least one"):
                model.model_validate(empty)

    def test_the_bus_meters_seconds_only(self) -> None:
        assert Budget.model_validate({"seconds": 5, "count": "metered"}).seconds == 5_000
        for more in ({"tokens": 5}, {"usd": 5, "seconds": 1}):
            with pytest.raises(ValidationError, match="meters seconds only"):
                Budget.model_validate({"count": "metered", **more})


class TestShowing:
    @given(AMOUNTS)
    def test_callers_see_dollars_and_seconds(self, amounts: dict[str, int]) -> None:
        shown = usage.plain(amounts)
        assert round(shown["usd"] * 10**6) == amounts.get("usd", 0)
        assert round(shown["seconds"] * 1_000) == amounts.get("seconds", 0)
        assert shown["input_tokens"] == amounts.get("input_tokens", 0)
        assert list(shown) == list(usage.AMOUNTS)

    @pytest.mark.parametrize(
        ("name", "amount", "text"),
        [("tokens", 1_500_000, "1,500,000 tokens"), ("usd", 1_250_000, "1.25 USD"), ("usd", 1_234_567_000_001, "1,234,567.000001 USD"),
         ("usd", 1, "0.000001 USD"), ("seconds", 86_400_500, "86,400.5 s"), ("seconds", 0, "0 s")],
    )  # fmt: skip
    def test_in_words(self, name: str, amount: int, text: str) -> None:
        assert usage.shown(name, amount) == text
