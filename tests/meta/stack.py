"""template.yaml as AWS reads it: functions with their defaults, roles with their policies, intrinsics as mappings."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FUNCTION = "AWS::Serverless::Function"
QUEUES = {
    "lease": "Lease",
    "lease-dead": "LeaseDead",
    "barrier": "Barrier",
    "barrier-dead": "BarrierDead",
    "routing": "Routing",
    "routing-dead": "RoutingDead",
    "dispatch-dead": "DispatchDead",
}
"""Logical ids of the queues by the names that the code knows."""


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags."""


def _intrinsic(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if tag == "GetAtt":
        value = value.split(".", 1)
    return {tag if tag in {"Ref", "Condition"} else f"Fn::{tag}": value}


Loader.add_multi_constructor("!", _intrinsic)

DOCUMENT: dict[str, Any] = yaml.load((ROOT / "template.yaml").read_text(encoding="utf-8"), Loader)
RESOURCES: dict[str, Any] = DOCUMENT["Resources"]


def of_type(kind: str) -> dict[str, dict[str, Any]]:
    """Properties of the resources of a type, by logical id."""
    return {name: r.get("Properties", {}) for name, r in RESOURCES.items() if r["Type"] == kind}


FUNCTIONS = of_type(FUNCTION)


def text(value: Any) -> str:
    """A resource as a policy names it, in short: ``Table.Arn``, ``Table.Arn/index/index1``."""
    if isinstance(value, str):
        return value
    if "Fn::GetAtt" in value:
        return ".".join(value["Fn::GetAtt"])
    if "Fn::Sub" in value:
        return str(value["Fn::Sub"]).replace("${", "").replace("}", "")
    return str(value["Ref"])


def listed(value: Any) -> list[Any]:
    """A value that may stand alone as the list that it means."""
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True, slots=True)
class Grant:
    """One allowed action on one resource; ``keys`` are patterns of the partitions that it reaches, if it is fenced."""

    action: str
    resource: str
    keys: tuple[str, ...] = ()

    def reaches(self, partition: str) -> bool:
        """Whether the fence lets this partition through."""
        return not self.keys or any(fnmatch.fnmatchcase(partition, pattern) for pattern in self.keys)


def grants_of_policy(document: dict[str, Any]) -> Iterator[Grant]:
    """What a policy document allows. A statement in a form that this reader does not know fails."""
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        assert statement.keys() <= {"Effect", "Action", "Resource", "Condition"}, statement
        condition = statement.get("Condition", {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ()}})
        patterns = tuple(condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"])
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                yield Grant(action, text(resource), patterns)


def policies(role: str) -> dict[str, dict[str, Any]]:
    """A role's policy documents by name."""
    properties = RESOURCES[role]["Properties"]
    shared = {
        text(policy): RESOURCES[text(policy)]["Properties"] for policy in properties["ManagedPolicyArns"]
    }
    own = {policy["PolicyName"]: policy for policy in properties.get("Policies", [])}
    return {name: policy["PolicyDocument"] for name, policy in (shared | own).items()}


def grants(role: str) -> list[Grant]:
    """Everything that a role allows."""
    return [grant for document in policies(role).values() for grant in grants_of_policy(document)]


def role_of(function: str) -> str:
    """The role of a function, by logical id."""
    return text(FUNCTIONS[function]["Role"]).removesuffix(".Arn")


def environment(function: str) -> dict[str, str]:
    """What a function is told: variable to logical id."""
    variables = FUNCTIONS[function].get("Environment", {}).get("Variables", {})
    return {name: text(value) for name, value in variables.items()}


def handler_file(function: str) -> Path:
    """The file that a function's handler lives in."""
    properties = FUNCTIONS[function]
    module, _, attribute = properties["Handler"].rpartition(".")
    assert attribute == "handler"
    return ROOT / properties["CodeUri"] / f"{module.replace('.', '/')}.py"
