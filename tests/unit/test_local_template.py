"""template.yaml as the laptop's bus reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.app.consumers import CONSUMERS
from interlock.edges.operations import OPERATIONS
from interlock.local import template as templates
from interlock.local.template import TemplateError
from interlock.store.embedded.queue import dead_letters
from interlock.store.rules import MAX_RECEIVES

TEMPLATE = """
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Conditions:
  Never: !Equals [!Ref "AWS::Region", nowhere]
Globals:
  Function:
    Runtime: python3.13
    CodeUri: functions/
    Timeout: 10
    MemorySize: 256
Resources:
  Table: {Type: "AWS::DynamoDB::Table"}
  LeaseQueue:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 180
      RedrivePolicy:
        deadLetterTargetArn: !GetAtt LeaseDeadQueue.Arn
        maxReceiveCount: 5
  LeaseDeadQueue: {Type: "AWS::SQS::Queue"}
  Hello:
    Type: AWS::Serverless::Function
    Properties:
      Handler: system.hello.handler
      Timeout: 3
      Events:
        Route: {Type: HttpApi, Properties: {ApiId: !Ref Api, Path: /hello, Method: get}}
        Second: {Type: HttpApi, Properties: {ApiId: !Ref Api, Path: "/hello/{who}", Method: POST}}
  Elsewhere:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/system
      Handler: hello.handler
      Environment:
        Variables:
          INTERLOCK_QUEUE_LEASE: !Ref LeaseQueue
          INTERLOCK_QUEUE_LEASE_DEAD: !Ref LeaseDeadQueue
          OTHER: !Sub "${Table}-x"
      Events:
        Rest: {Type: HttpApi, Properties: {ApiId: !Ref Api}}
        Hourly: {Type: ScheduleV2, Properties: {ScheduleExpression: rate(2 hours)}}
  Dispatch:
    Type: AWS::Serverless::Function
    Properties:
      Handler: system.hello.handler
      Events:
        Changes:
          Type: DynamoDB
          Properties:
            Stream: !GetAtt Table.StreamArn
            BatchSize: 25
            FunctionResponseTypes: [ReportBatchItemFailures]
  Timers:
    Type: AWS::Serverless::Function
    Properties:
      Handler: system.hello.handler
      Events:
        Messages:
          Type: SQS
          Properties:
            Queue: !GetAtt LeaseQueue.Arn
            BatchSize: 10
            FunctionResponseTypes: [ReportBatchItemFailures]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "functions" / "system"
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text("def handler(event, context):\n    return {'statusCode': 200}\n")
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    return tmp_path


def changed(root: Path, old: str, new: str) -> Path:
    file = root / "template.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


def test_routes_name_the_file_of_their_handler(root: Path) -> None:
    found = templates.read(root / "template.yaml")
    assert [(route.method, route.path, route.function.name) for route in found.routes] == [
        ("GET", "/hello", "Hello"),
        ("POST", "/hello/{who}", "Hello"),
        ("ANY", "$default", "Elsewhere"),
    ]
    file = root / "functions" / "system" / "hello.py"
    assert {route.function.file.resolve() for route in found.routes} == {file}
    assert [(route.function.timeout, route.function.memory) for route in found.routes[1:]] == [
        (3, 256),
        (10, 256),
    ]


def test_stream_queue_and_schedule(root: Path) -> None:
    found = templates.read(root / "template.yaml")
    assert found.stream is not None
    assert (found.stream.function.name, found.stream.batch, found.stream.partial) == ("Dispatch", 25, True)
    (queue,) = found.queues
    assert (queue.queue, queue.function.name, queue.batch, queue.partial) == ("lease", "Timers", 10, True)
    assert (queue.visibility, queue.max_receives, queue.dead_letters) == (180, 5, "lease-dead")
    assert [(schedule.function.name, schedule.seconds) for schedule in found.schedules] == [
        ("Elsewhere", 7200)
    ]


def test_handlers_are_loaded_by_file_and_not_by_path(root: Path) -> None:
    before = list(sys.path)
    function = templates.read(root / "template.yaml").routes[0].function
    assert templates.load_handler(function)({}, None) == {"statusCode": 200}
    assert sys.path == before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("system.hello.handler", "system.gone.handler", "names no file"),
        ("{Type: HttpApi, Properties: {ApiId: !Ref Api}}", "{Type: SNS}", "SNS"),
        ("INTERLOCK_QUEUE_LEASE: ", "INTERLOCK_OTHER: ", "LeaseQueue"),
        ("rate(2 hours)", "cron(0 0 * * ? *)", "cron"),
        ("Resources:", "Things:", "Resources"),
        ("Resources:", "Resources: [", "template.yaml"),
    ],
)
def test_what_cannot_be_found_is_named(root: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(TemplateError, match=says):
        templates.read(changed(root, old, new))


def test_a_handler_without_its_attribute_is_named(root: Path) -> None:
    changed(root, "CodeUri: functions/system\n      Handler: hello.handler", "Handler: system.hello.nothing")
    function = templates.read(root / "template.yaml").routes[-1].function
    with pytest.raises(TemplateError, match="nothing"):
        templates.load_handler(function)


def test_a_missing_template_is_named(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"gone\.yaml"):
        templates.read(tmp_path / "gone.yaml")


def test_the_template_is_found_in_an_installed_package(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.__file__", str(root / "interlock" / "__init__.py"))
    with pytest.raises(TemplateError, match="install the package again"):
        templates.find()
    bundle = root / "interlock" / "_bundle"
    bundle.mkdir(parents=True)
    (root / "functions").rename(bundle / "functions")
    (root / "template.yaml").rename(bundle / "template.yaml")
    assert templates.find() == bundle / "template.yaml"
    assert len(templates.read(templates.find()).routes) == 3


def test_the_project_s_own_template_is_readable_and_complete() -> None:
    found = templates.read(templates.find())
    routes = {(route.method, route.path) for route in found.routes}
    assert {(operation.method, operation.path) for operation in OPERATIONS.values()} <= routes
    assert ("ANY", "$default") in routes
    assert found.stream is not None
    assert found.stream.partial
    assert {(source.queue, source.dead_letters, source.partial) for source in found.queues} == {
        (queue, f"{queue}-dead", True) for queue in CONSUMERS
    }
    for source in found.queues:  # as the embedded store does by itself
        assert dead_letters()[source.queue] == source.dead_letters
        assert source.max_receives == MAX_RECEIVES
