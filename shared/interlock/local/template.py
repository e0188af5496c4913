"""template.yaml as the laptop's bus reads it: functions, routes, the change feed's consumer, queues, schedules.

Only what decides behaviour here is read: which file handles what, batch sizes, visibility, dead letters. IAM,
alarms, layers and the rest are AWS's business.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import interlock
from interlock.config import QUEUES, queue_variable

Handler = Callable[[dict[str, Any], Any], Any]
"""A Lambda function's entry point: (event, context) to an answer."""

DEFAULT_ROUTE = "$default"
_BASE: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}


class TemplateError(Exception):
    """template.yaml cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Function:
    """One Lambda function: its logical name, the file and attribute of its handler, timeout in s, memory in MB."""

    name: str
    file: Path
    attribute: str
    timeout: int
    memory: int


@dataclass(frozen=True, slots=True)
class Route:
    """One route of the HTTP API; ``path`` is ``$default`` for the one that takes everything else."""

    method: str
    path: str
    function: Function


@dataclass(frozen=True, slots=True)
class QueueSource:
    """A queue that feeds a function.

    ``visibility`` in seconds. After ``max_receives`` deliveries (0: never) a message moves to ``dead_letters``.
    ``partial`` means that the function reports which messages of a batch failed.
    """

    queue: str
    function: Function
    batch: int
    visibility: int
    max_receives: int
    dead_letters: str
    partial: bool


@dataclass(frozen=True, slots=True)
class StreamSource:
    """The function that handles the table's change feed; ``partial`` as for queues."""

    function: Function
    batch: int
    partial: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """A function that runs every so many seconds."""

    function: Function
    seconds: int


@dataclass(frozen=True, slots=True)
class Template:
    """What template.yaml says, as far as it concerns the laptop."""

    routes: tuple[Route, ...]
    queues: tuple[QueueSource, ...]
    stream: StreamSource | None
    schedules: tuple[Schedule, ...]


def find() -> Path:
    """The template that belongs to this package: inside the wheel, else at the checkout's root."""
    package = Path(interlock.__file__).parent
    candidates = (package / "_bundle" / "template.yaml", package.parent.parent / "template.yaml")
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise TemplateError(f"no template.yaml at {' or '.join(map(str, candidates))}; install the package again")


def read(path: Path) -> Template:
    """Read a template. Raises TemplateError when it names something that cannot be found."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  a SafeLoader
    except (OSError, yaml.YAMLError) as problem:
        raise TemplateError(f"{path}: {problem}") from problem
    if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
        raise TemplateError(f"{path}: no Resources")
    return _Reader(path.parent, document).template()


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Leave no __pycache__ in functions/: it would be uploaded with the next deployment."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def load_handler(function: Function) -> Handler:
    """The function's entry point, loaded by its file under a name that cannot collide."""
    name = f"interlock_function_{function.name}"
    spec = importlib.util.spec_from_file_location(name, function.file)
    if spec is None or spec.loader is None:
        raise TemplateError(f"{function.name}: {function.file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _no_bytecode():
        spec.loader.exec_module(module)
    handler: Handler | None = getattr(module, function.attribute, None)
    if handler is None:
        raise TemplateError(f"{function.name}: {function.file} has no {function.attribute!r}")
    return handler


class _Loader(_BASE):  # type: ignore[misc]  # the base is chosen at run time: the C loader where it was built
    """YAML with CloudFormation's short tags, each read as the mapping that it abbreviates."""


def _short_tag(loader: Any, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_tag)


def _target(value: Any) -> str | None:
    """The logical name that a Ref or GetAtt points at."""
    if isinstance(value, dict):
        if isinstance(value.get("Ref"), str):
            return str(value["Ref"])
        attribute = value.get("Fn::GetAtt")
        if isinstance(attribute, list) and attribute:
            return str(attribute[0])
    return None


class _Reader:
    def __init__(self, root: Path, document: Mapping[str, Any]) -> None:
        self.root = root
        self.resources: Mapping[str, Any] = document["Resources"]
        self.defaults: Mapping[str, Any] = (document.get("Globals") or {}).get("Function") or {}
        self.queue_names = self._queue_names()

    def template(self) -> Template:
        routes: list[Route] = []
        queues: list[QueueSource] = []
        streams: list[StreamSource] = []
        schedules: list[Schedule] = []
        for name, properties in self._functions():
            function = self._function(name, properties)
            for event in (properties.get("Events") or {}).values():
                kind, given = event["Type"], event.get("Properties") or {}
                if kind == "HttpApi":
                    path = given.get("Path", DEFAULT_ROUTE)
                    routes.append(Route(str(given.get("Method", "ANY")).upper(), path, function))
                elif kind == "SQS":
                    queues.append(self._queue_source(function, given))
                elif kind == "DynamoDB":
                    streams.append(StreamSource(function, int(given.get("BatchSize", 100)), _partial(given)))
                elif kind in ("Schedule", "ScheduleV2"):
                    schedules.append(_schedule(function, given))
                else:
                    raise TemplateError(f"{name}: events of type {kind} are not known here")
        if len(streams) > 1:
            raise TemplateError("more than one function handles the change feed")
        return Template(tuple(routes), tuple(queues), streams[0] if streams else None, tuple(schedules))

    def _functions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, resource in self.resources.items():
            if resource.get("Type") == "AWS::Serverless::Function":
                yield name, {**self.defaults, **(resource.get("Properties") or {})}

    def _function(self, name: str, properties: Mapping[str, Any]) -> Function:
        module, _, attribute = str(properties.get("Handler", "")).rpartition(".")
        file = (self.root / str(properties.get("CodeUri", ".")) / Path(*module.split("."))).with_suffix(".py")
        if not module or not file.is_file():
            raise TemplateError(f"{name}: Handler {properties.get('Handler')!r} names no file ({file})")
        return Function(
            name, file, attribute, int(properties.get("Timeout", 3)), int(properties.get("MemorySize", 128))
        )

    def _queue_names(self) -> dict[str, str]:
        """Logical names of the queues by resource, from the variables through which functions are told them."""
        names: dict[str, str] = {}
        variables = {queue_variable(queue): queue for queue in QUEUES}
        sources = [self.defaults, *(properties for _, properties in self._functions())]
        for properties in sources:
            environment = (properties.get("Environment") or {}).get("Variables") or {}
            for variable, value in environment.items():
                resource = _target(value)
                if variable in variables and resource is not None:
                    names[resource] = variables[variable]
        return names

    def _queue_name(self, value: Any, where: str) -> str:
        resource = _target(value)
        if resource is None or resource not in self.queue_names:
            raise TemplateError(f"{where}: no function's environment names the queue {resource or value}")
        return self.queue_names[resource]

    def _queue_source(self, function: Function, given: Mapping[str, Any]) -> QueueSource:
        resource = given.get("Queue")
        queue = self._queue_name(resource, function.name)
        properties = self.resources[_target(resource) or ""].get("Properties") or {}
        redrive = properties.get("RedrivePolicy") or {}
        dead_letters = redrive.get("deadLetterTargetArn")
        return QueueSource(
            queue=queue,
            function=function,
            batch=min(int(given.get("BatchSize", 10)), 10),
            visibility=int(properties.get("VisibilityTimeout", 30)),
            max_receives=int(redrive.get("maxReceiveCount", 0)),
            dead_letters=self._queue_name(dead_letters, function.name) if dead_letters else "",
            partial=_partial(given),
        )


def _partial(given: Mapping[str, Any]) -> bool:
    return "ReportBatchItemFailures" in (given.get("FunctionResponseTypes") or [])


def _schedule(function: Function, given: Mapping[str, Any]) -> Schedule:
    expression = given.get("Schedule", given.get("ScheduleExpression", ""))
    match = _RATE.fullmatch(str(expression))
    if match is None:
        raise TemplateError(f"{function.name}: schedules are rate(…) here, not {expression!r}")
    return Schedule(function, int(match[1]) * _SECONDS[match[2]])
