"""template.yaml against the tables of truth: operations, keys, indexes, queues, alarms. Rights: test_fences."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from infra.template import ENVIRONMENT, TEMPLATE, logical_id, rendered
from tests.meta import stack
from tests.meta.stack import DOCUMENT, FUNCTIONS, QUEUES, RESOURCES, ROOT, environment, grants, of_type, text

from interlock import config
from interlock.domain import limits
from interlock.edges.operations import OPERATIONS
from interlock.store import keys
from interlock.store.aws import blobs
from interlock.store.aws.wire import to_wire
from interlock.store.ports import INDEX_1_PROJECTION, INDEX_2_PROJECTION, INDEX_KEYS, Key

WITHOUT_ROUTE = {"Retain", "Dispatch", "TimerConsumer", "BarrierConsumer", "RoutingConsumer", "Bootstrap"}


def test_what_is_generated_is_current() -> None:
    written = TEMPLATE.read_text(encoding="utf-8")
    assert written == rendered(written), "run `uv run python -m infra.template --write`"


# Routes and handlers


def routes() -> dict[tuple[str, str], str]:
    found = {}
    for name, properties in FUNCTIONS.items():
        for event in properties.get("Events", {}).values():
            if event["Type"] == "HttpApi":
                route = event["Properties"]
                assert text(route["ApiId"]) == "Api"
                place = (route["Method"], route["Path"]) if "Path" in route else ("ANY", "$default")
                assert place not in found, place
                found[place] = name
    return found


def test_the_routes_are_those_of_the_operations_table_of_mcp_and_the_default() -> None:
    wanted = {(row.method, row.path): logical_id(row.name) for row in OPERATIONS.values()}
    # ANY: what is not POST is answered 405 by MCP itself, not by the default that knows the operations only.
    assert routes() == wanted | {("ANY", "/mcp"): "Mcp", ("ANY", "$default"): "NotFound"}


def test_functions_without_a_route_are_known() -> None:
    assert FUNCTIONS.keys() - routes().values() == WITHOUT_ROUTE


def test_every_handler_is_a_file_and_every_file_is_a_handler() -> None:
    named = [stack.handler_file(name) for name in FUNCTIONS]
    assert len(named) == len(set(named)), "two functions share a handler"
    assert set(named) == set((ROOT / "functions").rglob("*.py"))


def test_an_operation_is_handled_by_the_file_of_its_name() -> None:
    for row in OPERATIONS.values():
        assert stack.handler_file(logical_id(row.name)) == ROOT / "functions" / row.area / f"{row.verb}.py"


# What functions are told


def told() -> set[str]:
    return {"INTERLOCK_TABLE", "INTERLOCK_BUCKET", *map(config.queue_variable, config.QUEUES)}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_told_exactly_what_its_role_may_use(function: str) -> None:
    variables = environment(function)
    assert variables.keys() <= told()
    used = {grant.resource.split(".")[0] for grant in grants(stack.role_of(function))} - {"Logs"}
    assert set(variables.values()) == used


def test_queues_and_their_variables_are_those_of_the_configuration() -> None:
    assert QUEUES.keys() == set(config.QUEUES)
    assert of_type("AWS::SQS::Queue").keys() == set(QUEUES.values())
    given = [environment(name) for name in FUNCTIONS] + list(ENVIRONMENT.values())
    for variables in given:
        for name, resource in variables.items():
            wanted = {config.queue_variable(queue): logical for queue, logical in QUEUES.items()}
            wanted |= {"INTERLOCK_TABLE": "Table", "INTERLOCK_BUCKET": "Payloads"}
            assert wanted[name] == resource


# The table and what feeds from it


def test_keys_and_indexes_are_those_of_the_ports() -> None:
    table = RESOURCES["Table"]["Properties"]
    assert table["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    wanted = [
        {
            "IndexName": f"index{number}",
            "KeySchema": [
                {"AttributeName": names[0], "KeyType": "HASH"},
                {"AttributeName": names[1], "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(projection)},
        }
        for (number, names), projection in zip(
            INDEX_KEYS.items(), (INDEX_1_PROJECTION, INDEX_2_PROJECTION), strict=True
        )
    ]
    assert table["GlobalSecondaryIndexes"] == wanted
    named = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}
    assert named == dict.fromkeys(
        ["pk", "sk", *(name for names in INDEX_KEYS.values() for name in names)], "S"
    )
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}


def passes(pattern: Any, value: Any) -> bool:
    """Whether a value passes a filter, as Lambda documents it: all fields, any of a leaf's rules, `exists` at leaves."""
    if isinstance(pattern, dict):
        return all(
            passes(rules, value.get(name) if isinstance(value, dict) else None)
            for name, rules in pattern.items()
        )
    leaf = None if isinstance(value, dict) else value
    return any(
        (leaf is not None) is rule["exists"] if isinstance(rule, dict) else leaf == rule for rule in pattern
    )


def record(key: Key, **attributes: int) -> dict[str, Any]:
    names = to_wire(key._asdict())
    return {"eventName": "MODIFY", "dynamodb": {"Keys": names, "NewImage": names | to_wire(attributes)}}


def test_the_dispatcher_is_called_for_changes_of_heads_only() -> None:
    event = FUNCTIONS["Dispatch"]["Events"]["Changes"]["Properties"]
    (only,) = event["FilterCriteria"]["Filters"]
    pattern = json.loads(only["Pattern"])
    head = keys.head("p1", "job", "j1")
    assert passes(pattern, record(head, version=3))
    assert not passes(pattern, record(head, version=3, quiet=1)), "renewals and timers cost no invocation"
    assert not passes(pattern, record(keys.log(head.pk, 3), version=3)), (
        "nor does the dispatcher's own writing"
    )
    assert not passes(pattern, record(Key(head.pk, keys.BODY)))
    assert not passes(pattern, {"dynamodb": {"Keys": {"pk": {"S": "p1#idem#0"}, "sk": {"S": "CALL"}}}})


def test_the_change_feed_is_handled_in_bounded_batches() -> None:
    event = FUNCTIONS["Dispatch"]["Events"]["Changes"]["Properties"]
    assert event["BatchSize"] == 10
    assert event["StartingPosition"] == "TRIM_HORIZON"
    assert event["BisectBatchOnFunctionError"] is True
    assert event["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert 100 <= event["MaximumRetryAttempts"] <= 10_000  # hours of a store that is away; AWS allows no more
    destination = event["DestinationConfig"]["OnFailure"]
    assert (destination["Type"], text(destination["Destination"])) == ("SQS", "DispatchDead.Arn")


def test_queues_have_dead_letters_and_consumers_limits() -> None:
    queues = of_type("AWS::SQS::Queue")
    sources = {text(e["Properties"]["Queue"]).removesuffix(".Arn"): (name, e["Properties"])
               for name, f in FUNCTIONS.items() for e in f.get("Events", {}).values() if e["Type"] == "SQS"}  # fmt: skip
    assert sources.keys() == {"Lease", "Barrier", "Routing"}
    for queue, (consumer, event) in sources.items():
        redrive = queues[queue]["RedrivePolicy"]
        assert (text(redrive["deadLetterTargetArn"]), redrive["maxReceiveCount"]) == (f"{queue}Dead.Arn", 5)
        assert event["BatchSize"] == 10
        assert event["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert event["ScalingConfig"]["MaximumConcurrency"] >= 2, "SQS takes no less"
        assert queues[queue]["VisibilityTimeout"] >= 6 * FUNCTIONS[consumer]["Timeout"]
    at_once = sum(event["ScalingConfig"]["MaximumConcurrency"] for _, event in sources.values())
    assert at_once <= 6, "a new account runs 10 functions at once: the dispatcher and callers need some"
    dead = set(queues) - set(sources)
    assert all(queues[name]["MessageRetentionPeriod"] == 14 * 86400 for name in dead)


# What the account sees


def test_parameters_have_defaults_and_outputs_exist() -> None:
    parameters = DOCUMENT["Parameters"]
    assert list(parameters) == [
        "LogRetentionDays",
        "ThrottleRate",
        "ThrottleBurst",
        "AlarmTopicArn",
        "PointInTimeRecovery",
    ]
    assert all("Default" in parameter and "Description" in parameter for parameter in parameters.values())
    assert list(DOCUMENT["Outputs"]) == ["ApiUrl", "TableName", "BucketName", "BootstrapFunction"]
    source = TEMPLATE.read_text(encoding="utf-8")
    assert all(f"!Ref {name}" in source for name in parameters)


def test_the_stack_stays_well_below_500_resources() -> None:
    events = [event for f in FUNCTIONS.values() for event in f.get("Events", {}).values()]
    made_by_sam = len(events) + 1  # a permission or an event source mapping each; the API's stage
    assert len(RESOURCES) + made_by_sam < 400


def test_data_outlives_the_stack_and_is_private() -> None:
    for name in ("Table", "Payloads"):
        assert RESOURCES[name]["DeletionPolicy"] == RESOURCES[name]["UpdateReplacePolicy"] == "Retain"
    bucket = RESOURCES["Payloads"]["Properties"]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert "BucketEncryption" in bucket
    statements = RESOURCES["PayloadsOverTlsOnly"]["Properties"]["PolicyDocument"]["Statement"]
    assert {statement["Effect"] for statement in statements} == {"Deny"}
    assert {statement["Principal"] for statement in statements} == {"*"}
    tls, overwriting = statements
    assert tls["Condition"] == {"Bool": {"aws:SecureTransport": False}}
    assert (overwriting["Action"], text(overwriting["Resource"])) == (
        "s3:PutObject",
        "Payloads.Arn/uploads/*",
    )
    assert overwriting["Condition"] == {
        "Null": {"s3:if-none-match": True},
        "Bool": {"s3:ObjectCreationOperation": True},
    }
    recovery = RESOURCES["Table"]["Properties"]["PointInTimeRecoverySpecification"]
    assert text(recovery["PointInTimeRecoveryEnabled"]) == "PointInTimeRecovery"


def test_uploads_that_nobody_verified_go_away_and_verified_ones_never() -> None:
    (rule,) = RESOURCES["Payloads"]["Properties"]["LifecycleConfiguration"]["Rules"]
    assert rule == {
        "Id": "UnverifiedUploads",
        "Status": "Enabled",
        "Prefix": keys.UPLOADS,
        "TagFilters": [{"Key": blobs.TAG, "Value": blobs.UNVERIFIED}],
        "ExpirationInDays": limits.UNVERIFIED_DAYS,
    }
    assert blobs.UNVERIFIED != blobs.VERIFIED
    assert limits.UPLOAD_SECONDS + limits.VERIFY_SECONDS < (limits.UNVERIFIED_DAYS - 1) * 86_400


def test_logs_are_kept_for_a_time_and_functions_share_one_form() -> None:
    shared = DOCUMENT["Globals"]["Function"]
    assert shared["Architectures"] == ["arm64"]
    assert shared["Runtime"] == "python3.13"
    assert [text(layer) for layer in shared["Layers"]] == ["Dependencies", "Code"]
    assert text(shared["LoggingConfig"]["LogGroup"]) == "Logs"
    assert text(RESOURCES["Logs"]["Properties"]["RetentionInDays"]) == "LogRetentionDays"
    overridden = {"Runtime", "Architectures", "Layers", "LoggingConfig", "VpcConfig"}
    assert not any(overridden & properties.keys() for properties in FUNCTIONS.values())
    assert all(RESOURCES[name]["Metadata"] == {"SkipBuild": True} for name in FUNCTIONS)


def test_alarms_watch_dead_letters_age_and_lag() -> None:
    watched = set()
    for alarm in of_type("AWS::CloudWatch::Alarm").values():
        (dimension,) = alarm["Dimensions"]
        watched.add((alarm["MetricName"], text(dimension["Value"]).split(".")[0]))
        assert alarm["AlarmActions"]["Fn::If"][0] == "HasAlarmTopic"
        assert alarm["TreatMissingData"] == "notBreaching"
    assert watched == {
        *(("ApproximateNumberOfMessagesVisible", dead) for queue, dead in QUEUES.items() if "-dead" in queue),
        *(("ApproximateAgeOfOldestMessage", at) for queue, at in QUEUES.items() if "-dead" not in queue),
        ("IteratorAge", "Dispatch"),
    }


def test_the_api_is_throttled() -> None:
    settings = RESOURCES["Api"]["Properties"]["DefaultRouteSettings"]
    assert {name: text(value) for name, value in settings.items()} == {
        "ThrottlingRateLimit": "ThrottleRate",
        "ThrottlingBurstLimit": "ThrottleBurst",
    }


# The layers


def test_the_layers_are_made_for_the_functions_runtime() -> None:
    version = DOCUMENT["Globals"]["Function"]["Runtime"].removeprefix("python")
    for name, properties in of_type("AWS::Serverless::LayerVersion").items():
        assert RESOURCES[name]["Metadata"] == {"BuildMethod": "makefile", "BuildArchitecture": "arm64"}
        makefile = (ROOT / properties["ContentUri"] / "Makefile").read_text(encoding="utf-8")
        assert f"\nbuild-{name}:\n" in makefile
        assert f"\nPYTHON_VERSION ?= {version}\n" in makefile
        assert properties["CompatibleRuntimes"] == [f"python{version}"]


def test_the_layer_is_pinned_by_hash_and_names_no_host() -> None:
    folder = ROOT / "infra" / "layer"
    pinned = (folder / "requirements.txt").read_text(encoding="utf-8")
    assert not re.search(r"://|--index|--find-links|--extra", pinned)
    blocks = [block for block in re.split(r"\n(?=\S)", pinned) if not block.startswith("#")]
    assert all(re.match(r"[a-z0-9-]+==[\w.]+ \\\n", block) and "--hash=sha256:" in block for block in blocks)
    wanted = {
        line
        for line in (folder / "requirements.in").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    }
    assert wanted <= set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    )
    assert {re.split(r"[<>=]", line)[0] for line in wanted} <= {block.split("==")[0] for block in blocks}
