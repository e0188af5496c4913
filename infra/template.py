"""Makes the part of template.yaml that follows from tables: one function per operation, and the role of the tools.

``uv run python -m infra.template`` says whether template.yaml is current (exit code 1 when it is not);
``--write`` brings it up to date. The rest of template.yaml, the other roles among it, is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from interlock.edges.mcp import tools
from interlock.edges.operations import OPERATIONS, Operation

TEMPLATE = Path(__file__).parent.parent / "template.yaml"
BEGIN = "  # >>> "
END = "  # <<< "
LOGS = "!GetAtt Logs.Arn"

ROLES: Mapping[str, str] = {
    # Areas, and operations that differ from their area.
    "jobs": "JobMoverRole",
    "jobs.create": "JobCreatorRole",
    "jobs.retry": "JobReviverRole",
    "jobs.edit": "JobWriterRole",
    "jobs.attach": "UploadRole",
    "jobs.verify": "UploadRole",
    "jobs.list": "ReaderRole",
    "jobs.get": "RenewingReaderRole",
    "jobs.timeline": "RenewingReaderRole",
    "jobs.explain": "RenewingReaderRole",
    "jobs.artifact": "RenewingReaderRole",
    "jobs.graph": "RenewingReaderRole",
    "jobs.reopen_context": "RenewingReaderRole",
    "jobs.link": "LinkRole",
    "claims": "JobMoverRole",
    "claims.next": "ClaimNextRole",
    "claims.claim": "ClaimRole",
    "claims.restart": "RestartRole",
    "claims.complete": "CompleterRole",
    "claims.fail": "HolderRole",
    "claims.block": "HolderRole",
    "claims.release": "HolderRole",
    "claims.heartbeat": "HeartbeatRole",
    "claims.reject": "RejectRole",
    "decisions": "JobMoverRole",
    "decisions.list": "ReaderRole",
    "decisions.get": "RenewingReaderRole",
    "plans": "PlanRole",
    "ledger": "ReaderRole",
    "roles": "ProjectRole",
    "roles.list": "ReaderRole",
    "agents": "AgentRole",
    "agents.list": "ReaderRole",
    "agents.get": "ReaderRole",
    "agents.delete": "RetireAgentRole",
    "agents.stop": "RetireAgentRole",
    "owners": "OwnerRole",
    "owners.list": "ReaderRole",
    "installation": "OwnerRole",
    "installation.owner_list": "ReaderRole",
    "projects": "ProjectRole",
    "projects.list": "ReaderRole",
    "projects.get": "ReaderRole",
    "projects.resume": "ResumeRole",
    "system.me": "ReaderRole",
    "system.stats": "ReaderRole",
    "system.workers": "ReaderRole",
    "system.attention": "AttentionRole",
    "system.repair": "RepairRole",
    "system.dead_letters": "DeadLettersRole",
    "system.redrive": "RedriveRole",
    "system.health": "HealthRole",
    "system.openapi": "OpenRole",
}
"""The role of an operation's function: least privilege is decided here and in the roles of template.yaml."""

_TABLE = {"INTERLOCK_TABLE": "Table"}
_BUCKET = {"INTERLOCK_BUCKET": "Payloads"}
_QUEUES = {
    "INTERLOCK_QUEUE_LEASE": "Lease",
    "INTERLOCK_QUEUE_BARRIER": "Barrier",
    "INTERLOCK_QUEUE_ROUTING": "Routing",
}
_DEAD = {
    "INTERLOCK_QUEUE_LEASE_DEAD": "LeaseDead",
    "INTERLOCK_QUEUE_BARRIER_DEAD": "BarrierDead",
    "INTERLOCK_QUEUE_ROUTING_DEAD": "RoutingDead",
    "INTERLOCK_QUEUE_DISPATCH_DEAD": "DispatchDead",
}

ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "OpenRole": {},
    "HealthRole": _TABLE,
    "ReaderRole": _TABLE,
    "RenewingReaderRole": _TABLE | _BUCKET,
    "JobMoverRole": _TABLE | _BUCKET,
    "JobWriterRole": _TABLE | _BUCKET,
    "CompleterRole": _TABLE | _BUCKET,
    "HolderRole": _TABLE | _BUCKET,
    "HeartbeatRole": _TABLE,
    "UploadRole": _TABLE | _BUCKET,
    "JobCreatorRole": _TABLE | _BUCKET,
    "JobReviverRole": _TABLE | _BUCKET,
    "RestartRole": _TABLE | _BUCKET,
    "ClaimRole": _TABLE | _BUCKET,
    "PlanRole": _TABLE | _BUCKET,
    "LinkRole": _TABLE | _BUCKET,
    "RejectRole": _TABLE | _BUCKET,
    "ClaimNextRole": _TABLE | _BUCKET,
    "AgentRole": _TABLE,
    "RetireAgentRole": _TABLE,
    "OwnerRole": _TABLE,
    "ProjectRole": _TABLE,
    "ResumeRole": _TABLE,
    "RepairRole": _TABLE | _QUEUES,
    "DeadLettersRole": _TABLE | _DEAD,
    "AttentionRole": _TABLE | _DEAD,
    "RedriveRole": _TABLE | _BUCKET | _QUEUES | _DEAD,
}
"""What the functions of a role are told: nothing that the role may not use."""


def logical_id(operation: str) -> str:
    """The name of an operation's function in the template: ``jobs.create`` is ``JobsCreate``."""
    return "".join(part.capitalize() for part in operation.replace(".", "_").split("_"))


def role_of(operation: str) -> str:
    """The role of an operation's function."""
    return ROLES.get(operation) or ROLES[operation.partition(".")[0]]


def function(operation: Operation) -> str:
    """One function as a resource of the template."""
    role = role_of(operation.name)
    variables = ", ".join(f"{name}: !Ref {resource}" for name, resource in ENVIRONMENT[role].items())
    environment = f"      Environment: {{Variables: {{{variables}}}}}\n" if variables else ""
    route = f'ApiId: !Ref Api, Method: {operation.method}, Path: "{operation.path}"'
    return (
        f"  {logical_id(operation.name)}:\n"
        "    Type: AWS::Serverless::Function\n"
        "    Metadata: {SkipBuild: true}\n"
        "    Properties:\n"
        "      CodeUri: functions/\n"
        f"      Handler: {operation.area}.{operation.verb}.handler\n"
        f'      Description: "{operation.summary}"\n'
        f"      Role: !GetAtt {role}.Arn\n"
        f"{environment}"
        f"      Events: {{Http: {{Type: HttpApi, Properties: {{{route}}}}}}}\n"
    )


class _AsWritten(yaml.SafeLoader):
    """YAML in which CloudFormation's short tags stay the text that they are."""


def _tag(_loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> str:
    quote = node.style or "" if isinstance(node, yaml.ScalarNode) else ""
    return f"!{tag} {quote}{node.value}{quote}"


_AsWritten.add_multi_constructor("!", _tag)

Reach = tuple[tuple[str, ...], tuple[str, ...]]
"""Resources, and the partitions in them to which a grant is fenced (none: it is not)."""


def roles_of_tools() -> list[str]:
    """The roles of the operations that MCP's tools carry out."""
    return sorted({role_of(name) for row in tools.ROWS.values() for name in row.operations})


def granted(resources: Mapping[str, Any], roles: Iterable[str]) -> dict[Reach, set[str]]:
    """The actions that any of the roles allows, by what they reach."""
    found: dict[Reach, set[str]] = {}
    for role in roles:
        properties = resources[role]["Properties"]
        shared = [
            resources[each.removeprefix("!Ref ")]["Properties"] for each in properties["ManagedPolicyArns"]
        ]
        for policy in [*shared, *properties.get("Policies", ())]:
            for statement in policy["PolicyDocument"]["Statement"]:
                fence = statement.get("Condition", {}).get("ForAllValues:StringLike", {})
                where = tuple(_listed(statement["Resource"])), tuple(fence.get("dynamodb:LeadingKeys", ()))
                found.setdefault(where, set()).update(_listed(statement["Action"]))
    return found


def _listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def role_of_tools(text: str) -> str:
    """The role of MCP's function as a resource of the template: what the roles of its tools' operations allow, once."""
    statements = []
    for (resources, fence), actions in sorted(granted(_resources(text), roles_of_tools()).items()):
        if resources == (LOGS,):
            continue
        statement = f"Action: [{', '.join(sorted(actions))}], Resource: [{', '.join(resources)}]"
        if fence:
            patterns = ", ".join(f'"{pattern}"' for pattern in fence)
            statement += (
                f', Condition: {{"ForAllValues:StringLike": {{"dynamodb:LeadingKeys": [{patterns}]}}}}'
            )
        statements.append(f"              - {{Effect: Allow, {statement}}}\n")
    return (
        "  McpRole:  # what the roles of its tools' operations allow, all of it: one function serves every tool\n"
        "    Type: AWS::IAM::Role\n"
        "    Properties:\n"
        "      AssumeRolePolicyDocument:\n"
        '        {Version: "2012-10-17", Statement: [{Effect: Allow, Principal: {Service: lambda.amazonaws.com}, '
        'Action: "sts:AssumeRole"}]}\n'
        "      ManagedPolicyArns: [!Ref WriteLogs]\n"
        "      Policies:\n"
        "        - PolicyName: tools\n"
        "          PolicyDocument:\n"
        '            Version: "2012-10-17"\n'
        "            Statement:\n"
        f"{''.join(statements)}"
    )


def _resources(text: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(text, _AsWritten)  # noqa: S506  a SafeLoader
    resources: dict[str, Any] = document["Resources"]
    return resources


def rendered(text: str) -> str:
    """The template with its generated part made anew; everything outside the two markers stays as it is."""
    before, _, rest = text.partition(BEGIN)
    marker, _, rest = rest.partition("\n")
    _, _, after = rest.partition(END)
    made = "\n".join([role_of_tools(before), *(function(operation) for operation in OPERATIONS.values())])
    return f"{before}{BEGIN}{marker}\n\n{made}\n{END}{after}"


def main() -> int:
    """Compare or write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.template", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write template.yaml instead of comparing")
    arguments = parser.parse_args()
    text = TEMPLATE.read_text(encoding="utf-8")
    wanted = rendered(text)
    if arguments.write:
        TEMPLATE.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        print("template.yaml is not current: run `uv run python -m infra.template --write`")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
