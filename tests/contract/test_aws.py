"""What only the AWS adapter has: its translation of requests and answers, and its patience."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

import interlock
from interlock.config import Config
from interlock.errors import StoreError
from interlock.store import conditions
from interlock.store.aws import failures, open_aws, open_feed, wire
from interlock.store.aws.compile import Expression
from interlock.store.aws.ranges import key_range
from interlock.store.conditions import AllOf, AnyOf, Compare, Exists
from interlock.store.ports import ConditionLost, Key, Put, Query, Update
from interlock.store.ranges import prefix_end

HEAD = Key("p#job#1", "HEAD")
CONFIG = Config(table="t", bucket="b", queue_urls={"lease": "https://queue"})


def refusal(code, **answer):
    return ClientError({"Error": {"Code": code, "Message": code}, **answer}, "Any")


def cancelled(*codes):
    reasons = [{"Code": code} for code in codes]
    return refusal("TransactionCanceledException", CancellationReasons=reasons)


@pytest.fixture
def script(monkeypatch):
    """Replace the clients by answers in order; answers the requests that were made."""

    def install(*answers):
        waiting = list(answers)
        calls = []

        class Fake:
            def __getattr__(self, method):
                def call(**request):
                    calls.append((method, request))
                    answer = waiting.pop(0)
                    if isinstance(answer, Exception):
                        raise answer
                    return answer

                return call

        for module in ("table", "queue", "blobs", "feed"):
            monkeypatch.setattr(f"interlock.store.aws.{module}.client", lambda service: Fake())
        monkeypatch.setattr(failures, "pause", lambda attempt: None)
        return calls

    return install


def test_neither_boto3_nor_botocore_is_loaded_by_importing_the_adapter():
    program = (
        "import sys; from interlock.config import Config; from interlock.store.aws import open_aws, open_feed;"
        "import interlock.store.aws.provision, interlock.store.aws.motolock;"
        "open_aws(Config('t', 'b', {})); open_feed(Config('t', 'b', {}));"
        "sys.exit(any(name.split('.')[0] in ('boto3', 'botocore', 'moto') for name in sys.modules))"
    )
    source = Path(interlock.__file__).parent.parent
    assert (
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONPATH": str(source)}, check=False
        ).returncode
        == 0
    )


class TestPatience:
    @pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
    def test_throttling(self, script, code):
        table = open_aws(CONFIG).table
        calls = script(*[refusal(code)] * 20)
        for call in (
            lambda: table.get(HEAD),
            lambda: table.write(Put(HEAD, {})),
            lambda: table.query(Query("p")),
        ):
            with pytest.raises(StoreError) as failed:
                call()
            assert failed.value.code == "throttled"
            assert failed.value.retryable
        assert len(calls) == 2 + failures.TRIES

    def test_everything_else_is_unavailable(self, script):
        store = open_aws(CONFIG)
        broken = EndpointConnectionError(endpoint_url="https://x")
        script(
            refusal("InternalServerError"), broken, refusal("AccessDenied"), refusal("NoSuchBucket"), broken
        )
        for call in (
            lambda: store.table.get(HEAD),
            lambda: store.table.write(Put(HEAD, {})),
            lambda: store.queues.receive("lease"),
            lambda: store.blobs.get("k"),
            lambda: store.table.transact([Put(HEAD, {})]),
        ):
            with pytest.raises(StoreError) as failed:
                call()
            assert failed.value.code == "store_unavailable"

    def test_a_write_that_meets_a_transaction_is_repeated(self, script):
        calls = script(refusal("TransactionConflictException"), {"Attributes": {"a": {"N": "1"}}})
        assert open_aws(CONFIG).table.write(Update(HEAD, {"a": 1})) == {"a": 1}
        assert len(calls) == 2

    def test_a_transaction_that_meets_another_is_repeated(self, script):
        conflict = cancelled("None", "TransactionConflict")
        calls = script(conflict, cancelled("ThrottlingError", "None"), {})
        open_aws(CONFIG).table.transact([Put(HEAD, {}), Put(Key("p", "s"), {})])
        assert len(calls) == 3
        script(*[conflict] * failures.TRIES)
        with pytest.raises(StoreError) as failed:
            open_aws(CONFIG).table.transact([Put(HEAD, {}), Put(Key("p", "s"), {})])
        assert failed.value.code == "throttled"

    def test_a_lost_condition_counts_more_than_a_conflict(self, script):
        calls = script(cancelled("TransactionConflict", "ConditionalCheckFailed"))
        with pytest.raises(ConditionLost) as lost:
            open_aws(CONFIG).table.transact([Put(HEAD, {}), Put(Key("p", "s"), {}, conditions.absent())])
        assert (lost.value.index, lost.value.item, len(calls)) == (1, None, 1)

    def test_other_reasons_of_a_cancelled_transaction(self, script):
        script(cancelled("ValidationError"), cancelled("ItemCollectionSizeLimitExceeded"))
        with pytest.raises(ValueError):
            open_aws(CONFIG).table.transact([Put(HEAD, {})])
        with pytest.raises(StoreError, match="ItemCollection"):
            open_aws(CONFIG).table.transact([Put(HEAD, {})])

    def test_keys_that_a_batch_left_out_are_asked_for_again(self, script):
        item = {"pk": {"S": HEAD.pk}, "sk": {"S": HEAD.sk}}
        rest = {"t": {"Keys": [item], "ConsistentRead": True}}
        calls = script({"Responses": {}, "UnprocessedKeys": rest}, {"Responses": {"t": [item]}})
        assert open_aws(CONFIG).table.batch_get([HEAD]) == {HEAD: {"pk": HEAD.pk, "sk": HEAD.sk}}
        assert calls[1] == ("batch_get_item", {"RequestItems": rest})
        script(*[{"Responses": {}, "UnprocessedKeys": rest}] * failures.TRIES)
        with pytest.raises(StoreError, match="UnprocessedKeys"):
            open_aws(CONFIG).table.batch_get([HEAD])

    def test_messages_that_a_batch_refused_are_sent_again(self, script):
        refused = {"Failed": [{"Id": "1", "SenderFault": False, "Code": "InternalError"}]}
        calls = script(refused, {}, {})
        open_aws(CONFIG).queues.send("lease", [({"n": number}, number) for number in range(12)])
        assert [[entry["Id"] for entry in request["Entries"]] for _, request in calls] == [
            [str(number) for number in range(10)],
            ["1"],
            ["10", "11"],
        ]
        script({"Failed": [{"Id": "0", "SenderFault": True, "Code": "InvalidMessageContents"}]})
        with pytest.raises(StoreError, match="InvalidMessageContents"):
            open_aws(CONFIG).queues.send("lease", [({}, 0)])
        script(*[refused] * failures.TRIES)
        with pytest.raises(StoreError) as failed:
            open_aws(CONFIG).queues.send("lease", [({}, 0), ({}, 0)])
        assert failed.value.code == "throttled"

    def test_pauses_grow_and_end(self, monkeypatch):
        pauses = []
        monkeypatch.setattr(failures.time, "sleep", pauses.append)
        for attempt in range(failures.TRIES):
            failures.pause(attempt)
            assert 0 <= pauses[-1] <= 0.02 * 2**attempt
        assert sum(pauses) < 2


class TestPages:
    def test_an_empty_page_in_the_middle_is_passed_over(self, script):
        key = {"pk": {"S": "p"}, "sk": {"S": "b"}}
        calls = script({"Items": [], "LastEvaluatedKey": key}, {"Items": [key]})
        assert open_aws(CONFIG).table.query(Query("p")).items == [{"pk": "p", "sk": "b"}]
        assert calls[1][1]["ExclusiveStartKey"] == key

    def test_the_end_is_claimed_only_where_it_is(self, script):
        items = [{"pk": {"S": "p"}, "sk": {"S": name}} for name in "abc"]
        script({"Items": items[:2], "LastEvaluatedKey": items[1]}, {"Items": items[:2]}, {"Items": items})
        table = open_aws(CONFIG).table
        assert table.query(Query("p", limit=2)).more
        assert not table.query(Query("p", limit=2)).more
        page = table.query(Query("p", limit=1, after="a"))
        assert page.more
        assert page.items == [{"pk": "p", "sk": "b"}]

    def test_reads_are_consistent_on_the_table_only(self, script):
        calls = script({"Items": []}, {"Items": []})
        open_aws(CONFIG).table.query(Query("p"))
        open_aws(CONFIG).table.query(Query("p", 1))
        assert calls[0][1]["ConsistentRead"] is True
        assert "IndexName" not in calls[0][1]
        assert calls[1][1]["IndexName"] == "index1"
        assert "ConsistentRead" not in calls[1][1]


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("a", "b"),
        ("LOG#", "LOG$"),
        ("\ud7ff", "\ue000"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff" * 2, None),
        ("", None),
    ],
)
def test_the_end_of_a_prefix(prefix, end):
    assert prefix_end(prefix) == end


def test_an_empty_range_asks_nothing():
    for query in (
        Query("p", lower="b", upper="a"),
        Query("p", upper=""),
        Query("p", prefix="a", upper="A"),
        Query("p", prefix="b", after="a", forward=False),
    ):
        assert key_range(query) is None


class TestExpressions:
    def text(self, test):
        return Expression().condition(test)

    def test_parentheses_only_where_they_mean_something(self):
        inner = AllOf((Exists("a"), Exists("b")))
        assert self.text(inner) == "attribute_exists(#n0) AND attribute_exists(#n1)"
        assert self.text(AnyOf((inner, Exists("a")))) == (
            "(attribute_exists(#n0) AND attribute_exists(#n1)) OR attribute_exists(#n0)"
        )
        assert "((" not in self.text(AnyOf((AllOf((inner,)), AnyOf((AnyOf((inner,)),)))))

    def test_names_are_shared_and_values_are_not(self):
        expression = Expression()
        expression.condition(AnyOf((Compare("status", "=", "a"), Compare("status", "=", "b"))))
        assert expression.update({"status": "c"}, ["x"]) == "SET #n0 = :v2 REMOVE #n1"
        assert expression.parameters() == {
            "ExpressionAttributeNames": {"#n0": "status", "#n1": "x"},
            "ExpressionAttributeValues": {":v0": {"S": "a"}, ":v1": {"S": "b"}, ":v2": {"S": "c"}},
        }

    def test_an_unknown_operator(self):
        with pytest.raises(ValueError, match="nothing"):
            self.text(Compare("a", "!=", 1))


ITEM = {
    "s": "x",
    "n": -5,
    "t": True,
    "f": False,
    "b": b"\x00\xff",
    "l": [1, [b"y"]],
    "m": {"b": b"z", "n": 2},
}


class TestWire:
    def test_there_and_back(self):
        assert wire.from_wire(wire.to_wire(ITEM)) == ITEM

    def test_the_form_of_events(self):
        def as_event(typed):
            ((kind, value),) = typed.items()
            if kind == "B":
                return {kind: base64.b64encode(value).decode()}
            if kind == "L":
                return {kind: [as_event(part) for part in value]}
            if kind == "M":
                return {kind: {name: as_event(part) for name, part in value.items()}}
            return typed

        event = {name: as_event(value) for name, value in wire.to_wire(ITEM).items()}
        assert event["b"] == {"B": "AP8="}
        assert wire.from_wire(event) == ITEM

    def test_numbers_in_other_notations(self):
        assert wire.from_wire({"a": {"N": "1E+3"}, "b": {"N": "-7.0"}}) == {"a": 1000, "b": -7}

    def test_types_that_are_never_written(self):
        with pytest.raises(ValueError, match="SS"):
            wire.from_wire({"a": {"SS": ["x"]}})
        with pytest.raises(ValueError, match="NoneType"):
            wire.value_to_wire(None)


class TestStreams:
    def record(self, sequence, version):
        image = wire.to_wire({"pk": HEAD.pk, "sk": HEAD.sk, "version": version})
        return {"dynamodb": {"SequenceNumber": str(sequence), "NewImage": image}}

    def described(self, *shards):
        shapes = [
            {"ShardId": name, **({"ParentShardId": parent} if parent else {})} for name, parent in shards
        ]
        return {"StreamDescription": {"Shards": shapes}}

    def test_a_child_shard_waits_for_its_parent(self, script):
        table = {"Table": {"LatestStreamArn": "arn"}}
        both = self.described(("child", "parent"), ("parent", "gone"))
        calls = script(
            table,
            both,
            {"ShardIterator": "p0"},
            {"Records": [self.record(1, 1)], "NextShardIterator": "p1"},
            {"Records": [self.record(2, 2)]},
            both,
            {"ShardIterator": "c0"},
            {"Records": [self.record(3, 3)], "NextShardIterator": "c1"},
        )
        feed = open_feed(CONFIG)
        assert [change.new["version"] for change in feed.read()] == [1]
        assert [change.new["version"] for change in feed.read()] == [1, 2]
        changes = feed.read()
        assert [change.new["version"] for change in changes] == [1, 2, 3]
        iterators = [request for method, request in calls if method == "get_shard_iterator"]
        assert [(each["ShardId"], each["ShardIteratorType"]) for each in iterators] == [
            ("parent", "TRIM_HORIZON"),
            ("child", "TRIM_HORIZON"),
        ]
        feed.acknowledge(changes)

    def test_an_expired_iterator_is_renewed_where_it_stopped(self, script):
        calls = script(
            {"Table": {"LatestStreamArn": "arn"}},
            self.described(("only", None)),
            {"ShardIterator": "i0"},
            {"Records": [self.record(5, 1)], "NextShardIterator": "i1"},
            refusal("ExpiredIteratorException"),
            {"ShardIterator": "i2"},
            refusal("TrimmedDataAccessException"),
            {"ShardIterator": "i3"},
            {"Records": [self.record(9, 2)], "NextShardIterator": "i4"},
        )
        feed = open_feed(CONFIG)
        for _ in range(4):
            found = feed.read()
        assert [change.new["version"] for change in found] == [1, 2]
        asked = [request for method, request in calls if method == "get_shard_iterator"]
        assert [each["ShardIteratorType"] for each in asked] == [
            "TRIM_HORIZON",
            "AFTER_SEQUENCE_NUMBER",
            "TRIM_HORIZON",
        ]
        assert asked[1]["SequenceNumber"] == "5"

    def test_a_stream_that_cannot_be_read(self, script):
        script(refusal("LimitExceededException"))
        with pytest.raises(StoreError) as failed:
            open_feed(CONFIG).read()
        assert failed.value.code == "throttled"
