"""The roles of template.yaml: which may write what, and no more than single actions on single resources."""

from __future__ import annotations

import json
import re

import pytest
from infra.template import ROLES, role_of
from tests.meta import stack
from tests.meta.stack import FUNCTIONS, RESOURCES, grants, of_type, text

from interlock.edges.operations import OPERATIONS
from interlock.store import keys

WIDE = {
    # The resources with a wildcard that a role may name, and why.
    "Payloads.Arn/*",  # the objects of the one bucket; their keys are hashes of what they hold
    "Payloads.Arn/uploads/*",  # what callers upload
    "Table.Arn/stream/*",  # the label of a table's stream is its time of creation
}


def test_every_operation_has_a_role_and_every_role_a_function() -> None:
    assert {role_of(name) for name in OPERATIONS} <= of_type("AWS::IAM::Role").keys()
    assert of_type("AWS::IAM::Role").keys() == {stack.role_of(name) for name in FUNCTIONS}
    areas = {row.area for row in OPERATIONS.values()}
    assert ROLES.keys() <= OPERATIONS.keys() | areas, "a row for an operation that is gone"


def test_every_policy_is_used() -> None:
    used = {text(p) for role in of_type("AWS::IAM::Role").values() for p in role["ManagedPolicyArns"]}
    assert used == of_type("AWS::IAM::ManagedPolicy").keys()


@pytest.mark.parametrize("role", of_type("AWS::IAM::Role"))
def test_a_role_has_no_more_policies_than_an_account_allows(role: str) -> None:
    properties = RESOURCES[role]["Properties"]
    assert len(properties["ManagedPolicyArns"]) <= 10
    own = sum(len(json.dumps(policy["PolicyDocument"])) for policy in properties.get("Policies", ()))
    assert own <= 10_240 / 2, "of all inline policies, with names that are longer than the template's"


@pytest.mark.parametrize("role", of_type("AWS::IAM::Role"))
def test_a_role_names_single_actions_on_single_resources(role: str) -> None:
    for grant in grants(role):
        assert "*" not in grant.action
        assert grant.resource in WIDE or "*" not in grant.resource, grant
        assert not re.search(r"Scan|PartiQL|BatchWrite|Table$|Purge|DeleteObject|PutBucket", grant.action), (
            grant
        )
        logical = grant.resource.split(".")[0]
        assert logical in RESOURCES, "rights end at the stack's own resources"
    trusted = RESOURCES[role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trusted == [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ]


def test_reading_operations_cannot_write_beyond_a_renewal() -> None:
    for row in OPERATIONS.values():
        if row.method != "GET":
            continue
        writes = {
            grant
            for grant in grants(role_of(row.name))
            if re.search(r"Put|Update|Delete|Send", grant.action) and not grant.action.startswith("logs:")
        }
        assert {grant.action for grant in writes} == ({"dynamodb:UpdateItem"} if row.renews else set()), (
            row.name
        )
        assert all(grant.keys == ("*#job#*",) for grant in writes)


WRITES = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem")


def writable(role: str, partition: str) -> bool:
    return any(grant.action in WRITES and grant.reaches(partition) for grant in grants(role))


LINK_WRITERS = {
    "JobCreatorRole",
    "PlanRole",
    "LinkRole",
    "RejectRole",
    "McpRole",
    "BarrierRole",
    "RedriveRole",
}
"""Roles that bring holds up to date with the upstream."""
JOB_WRITERS = {
    "JobMoverRole",
    "JobWriterRole",
    "CompleterRole",
    "HolderRole",
    "HeartbeatRole",
    "UploadRole",
    "JobReviverRole",
    "RestartRole",
    "ClaimRole",
    "ClaimNextRole",
    "TimerRole",
    "RoutingRole",
} | LINK_WRITERS - {"RedriveRole"}
JOB_ROLES = JOB_WRITERS | {"OpenRole", "HealthRole", "ReaderRole", "RenewingReaderRole"}
WRITERS = {
    "job": JOB_WRITERS | {"RetireAgentRole", "RedriveRole", "RetainRole"},
    "agent": {"AgentRole", "RetireAgentRole", "ResumeRole"},
    "presence": {"HeartbeatRole", "ClaimNextRole", "McpRole", "TimerRole"},
    "owner": {"OwnerRole"},
    "project": {"ProjectRole", "ResumeRole", "RetainRole"},
    "plan": {"PlanRole", "McpRole", "BarrierRole"},
}
"""Which roles may change an entity of a kind."""


@pytest.mark.parametrize("kind", WRITERS)
def test_only_what_changes_a_kind_of_entity_may_write_it(kind: str) -> None:
    partition = keys.partition("p1", kind, "x1")
    # Ledger rows stand in the partitions of the entities, hence whoever writes them may put (not update) there.
    ledger = {"DispatcherRole", "RepairRole", "RedriveRole"}
    renewal = {"RenewingReaderRole"} if kind == "job" else set()
    assert {role for role in of_type("AWS::IAM::Role") if writable(role, partition)} == (
        WRITERS[kind] | ledger | renewal
    )


@pytest.mark.parametrize("kind", ["agent", "owner", "project", "installation"])
def test_what_handles_jobs_cannot_write_a_credential_or_a_right(kind: str) -> None:
    for partition in (keys.partition("p1", kind, "x1"), keys.partition(keys.INSTALLATION, kind, "x1")):
        assert not {role for role in JOB_ROLES if writable(role, partition)}


def test_what_stands_beside_jobs_is_written_where_it_is_used() -> None:
    def writers(partition: str) -> set[str]:
        return {role for role in of_type("AWS::IAM::Role") if writable(role, partition)}

    plans = {"PlanRole", "McpRole", "BarrierRole", "RedriveRole"}
    assert writers(keys.external_live("p1", "ticket").pk) == {
        "JobCreatorRole",
        "JobReviverRole",
        "RestartRole",
        "RetainRole",
        *plans,
    }
    assert writers(keys.claim_call("p1", "00").pk) == {"ClaimNextRole", "McpRole"}
    assert writers(keys.slots_partition("p1", "role", "builder")) == {
        "ClaimRole",
        "ClaimNextRole",
        "RestartRole",
        "McpRole",
    }
    counting = {"CompleterRole", "HolderRole", "HeartbeatRole", "McpRole"}
    assert writers(keys.spend_partition("p1", "20261201")) == counting
    assert writers(keys.links("p1").pk) == {"LinkRole", "RejectRole", "McpRole"}


@pytest.mark.parametrize("role", of_type("AWS::IAM::Role"))
def test_who_works_on_links_may_delete_and_only_in_partitions_of_jobs(role: str) -> None:
    deletes = [grant for grant in grants(role) if grant.action == "dynamodb:DeleteItem"]
    assert bool(deletes) is (role in LINK_WRITERS | {"RetainRole"})
    where = ("*#job#*", "*#ext#*") if role == "RetainRole" else ("*#job#*",)
    assert all(grant.keys == where for grant in deletes)


def test_a_projects_name_opens_no_fence() -> None:
    """A project may be called like a kind of entity; its head stays out of reach all the same."""
    for kind in ("job", "agent", "presence", "owner", "plan", "graph", "ext", "idem", "slots", "spend"):
        pk = keys.project_head(kind).pk
        assert {role for role in of_type("AWS::IAM::Role") if writable(role, pk)} == {
            "ProjectRole",
            "ResumeRole",
            "RetainRole",
            "DispatcherRole",
            "RepairRole",
            "RedriveRole",
        }


def test_bootstrap_reaches_the_installation_only() -> None:
    assert writable("BootstrapRole", keys.partition(keys.INSTALLATION, "owner", "x1"))
    assert writable("BootstrapRole", keys.partition(keys.INSTALLATION, "installation", keys.INSTALLATION))
    assert not writable("BootstrapRole", keys.partition("p1", "owner", "x1"))
