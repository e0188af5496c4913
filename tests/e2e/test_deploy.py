"""template.yaml deployed onto ministack: built, uploaded and transformed as for AWS, then used over HTTP."""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from infra.ministack import STACK, Deployed, deploy, ministack, poll
from tests.meta.stack import FUNCTIONS
from tests.sim.speaker import message

from interlock.domain.access import RIGHTS
from interlock.edges.mcp import revisions
from interlock.edges.mcp.tools import ROWS
from interlock.edges.operations import OPERATIONS, Operation

pytestmark = pytest.mark.e2e

P = "/v1/projects/p1"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("deploy")
    with ministack(folder) as cloud:
        yield deploy(cloud, folder)


@pytest.fixture(scope="module")
def owner(stack: Deployed) -> str:
    """The token of the installation's first owner, made by the command that people use."""
    done = bootstrap(stack)
    assert done.returncode == 0, done.stderr
    token: str = json.loads(done.stdout)["token"]
    return token


def bootstrap(stack: Deployed) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("interlock")), "bootstrap", "--stack", STACK, "--json"],
        env=stack.cloud.environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def agent(stack: Deployed, owner: str) -> str:
    """The token of an agent of project p1 with role developer."""
    made(stack.call("POST", "/v1/projects", {"id": "p1", "title": "Deployed"}, token=owner))
    made(stack.call("POST", f"{P}/roles", {"key": "developer", "label": "Developer"}, token=owner))
    answer = made(stack.call("POST", f"{P}/agents", {"label": "one", "roles": ["developer"]}, token=owner))
    token: str = answer["token"]
    return token


def made(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    status, value = answer
    assert status == 201, json.dumps(value)
    return value


def found(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    status, value = answer
    assert status == 200, json.dumps(value)
    return value


def job(**fields: Any) -> dict[str, Any]:
    return {"summary": "Deploy me", "role": "developer", **fields}


def test_everything_of_the_template_was_made(stack: Deployed) -> None:
    assert stack.names.keys() >= FUNCTIONS.keys()
    assert stack.outputs.keys() == {"ApiUrl", "TableName", "BucketName", "BootstrapFunction"}
    assert stack.outputs["TableName"] == stack.names["Table"]
    mapping = stack.cloud.client("lambda").get_event_source_mapping(UUID=stack.names["DispatchChanges"])
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRetryAttempts"] > 0


def test_a_second_bootstrap_is_refused(stack: Deployed, owner: str) -> None:
    assert owner.startswith("il_own_installation.")
    assert bootstrap(stack).returncode == 4


def test_open_routes_and_unknown_ones(stack: Deployed) -> None:
    assert found(stack.call("GET", "/openapi.json"))["openapi"].startswith("3.1")
    for method, path, status, code in [
        ("GET", "/nowhere", 404, "not_found"),
        ("DELETE", f"{P}/jobs", 405, "method_not_allowed"),
        ("GET", f"{P}/jobs", 401, "token_missing"),
    ]:
        got, problem = stack.call(method, path)
        assert (got, problem["code"]) == (status, code)
        assert problem["hint"]


def test_every_function_answers(stack: Deployed) -> None:
    """Each starts from its zip and the two layers, and says that a credential is missing."""
    rows = [row for row in OPERATIONS.values() if "anyone" not in RIGHTS[row.name]]

    def ask(row: Operation) -> tuple[str, int, str]:
        path = re.sub(r"{\w+}", "x1", row.path)
        status, problem = stack.call(row.method, path, {} if row.body else None)
        return row.name, status, problem["code"]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, rows))
    assert [answer for answer in answers if answer[1:] != (401, "token_missing")] == []


def test_health_reads_the_store(stack: Deployed) -> None:
    # ministack answers /health itself, whatever the host name: the function is called with the event instead.
    event = {
        "version": "2.0",
        "routeKey": "GET /health",
        "rawPath": "/health",
        "rawQueryString": "",
        "headers": {},
        "requestContext": {"http": {"method": "GET", "path": "/health"}, "requestId": "r1"},
        "isBase64Encoded": False,
    }
    assert stack.invoke(stack.names["SystemHealth"], event)["statusCode"] == 200


def test_a_job_is_created_claimed_and_completed_and_its_ledger_arrives(stack: Deployed, agent: str) -> None:
    created = made(stack.call("POST", f"{P}/jobs", job(), token=agent, key="first"))["job"]
    again = found(stack.call("POST", f"{P}/jobs", job(), token=agent, key="first"))["job"]
    assert again["id"] == created["id"]

    claim = found(stack.call("POST", f"{P}/claims", {"roles": ["developer"]}, token=agent))
    assert claim["job"]["id"] == created["id"]
    body = {"fence": claim["claim"]["fence"], "result": {"summary": "done"}}
    done = found(stack.call("POST", f"{P}/jobs/{created['id']}/complete", body, token=agent))["job"]
    assert done["status"] == "completed"

    # The feed reads ledger rows only, and these are written by the dispatcher alone.
    def ledger() -> list[dict[str, Any]] | None:
        feed = found(stack.call("GET", f"{P}/events", token=agent))["items"]
        rows = [event for event in feed if event["entity"] == f"job/{created['id']}"]
        return rows if len(rows) == done["version"] else None

    rows = poll("the ledger rows arrive through stream and dispatcher", 60, ledger)
    assert sorted(event["seq"] for event in rows) == list(range(1, done["version"] + 1))
    timeline = found(stack.call("GET", f"{P}/jobs/{created['id']}/events", token=agent))
    assert "incomplete" not in timeline
    assert timeline["items"] == sorted(rows, key=lambda event: event["seq"])
    assert found(stack.call("POST", f"{P}/claims", {"roles": ["developer"]}, token=agent))["job"] is None


def test_a_timer_goes_from_the_stream_through_the_queue_to_its_consumer(stack: Deployed, agent: str) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=4)
    waiting = made(stack.call("POST", f"{P}/jobs", job(not_before=soon.isoformat()), token=agent))["job"]
    assert waiting["status"] == "pending"
    path = f"{P}/jobs/{waiting['id']}"

    def published() -> dict[str, Any] | None:
        seen = found(stack.call("GET", path, token=agent))["job"]
        return seen if seen["status"] == "published" else None

    poll("the job is published when its time has come", 60, published)
    found(stack.call("POST", f"{path}/cancel", {"reason": "enough"}, token=agent))
    queue = stack.cloud.client("sqs").get_queue_attributes(
        QueueUrl=stack.names["DispatchDead"], AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert queue["Attributes"]["ApproximateNumberOfMessages"] == "0"


def status(stack: Deployed, agent: str, job_id: str) -> str:
    return str(found(stack.call("GET", f"{P}/jobs/{job_id}", token=agent))["job"]["status"])


def complete(stack: Deployed, agent: str, job_id: str, **result: Any) -> None:
    """Claim this job and complete it."""
    path = f"{P}/jobs/{job_id}"
    fence = found(stack.call("POST", f"{path}/claim", {}, token=agent))["claim"]["fence"]
    found(stack.call("POST", f"{path}/complete", {"fence": fence, **result}, token=agent))


def reached(stack: Deployed, agent: str, job_id: str, wanted: str) -> None:
    """Wait until the functions behind stream and queues have brought the job there."""
    poll(f"the job is {wanted}", 60, lambda: True if status(stack, agent, job_id) == wanted else None)


def test_a_job_waits_for_another_until_stream_and_barrier_publish_it(stack: Deployed, agent: str) -> None:
    up, other = (made(stack.call("POST", f"{P}/jobs", job(), token=agent))["job"]["id"] for _ in range(2))
    down = made(stack.call("POST", f"{P}/jobs", job(blocked_by=[up, other]), token=agent))["job"]
    last = made(stack.call("POST", f"{P}/jobs", job(blocked_by=[down["id"]]), token=agent))["job"]
    assert (down["status"], last["status"]) == ("pending", "pending")
    complete(stack, agent, up)
    path = f"{P}/jobs/{other}"
    fence = found(stack.call("POST", f"{path}/claim", {}, token=agent))["claim"]["fence"]
    found(stack.call("POST", f"{path}/fail", {"fence": fence, "reason": "broken"}, token=agent))
    reached(stack, agent, last["id"], "failed")
    again = found(stack.call("POST", f"{path}/restart", {}, token=agent))["claim"]["fence"]
    reached(stack, agent, last["id"], "pending")
    found(stack.call("POST", f"{path}/complete", {"fence": again}, token=agent))
    reached(stack, agent, down["id"], "published")
    assert status(stack, agent, last["id"]) == "pending"

    def activations() -> int | None:
        page = found(stack.call("GET", f"{P}/jobs/{down['id']}/events", token=agent))
        return sum(event["type"] == "job.activated" for event in page["items"]) or None

    assert poll("the ledger says so", 60, activations) == 1
    for job_id in (last["id"], down["id"]):
        found(stack.call("POST", f"{P}/jobs/{job_id}/cancel", {"reason": "enough"}, token=agent))


def test_a_job_follows_from_another_by_its_rule(stack: Deployed, agent: str) -> None:
    rule = {
        "role": "developer",
        "summary": "Follow up",
        "when": {"field": "data.ok", "op": "eq", "value": True},
    }
    first = made(stack.call("POST", f"{P}/jobs", job(routing=[rule]), token=agent))["job"]["id"]
    complete(stack, agent, first, result={"data": {"ok": True}})

    def followers() -> list[dict[str, Any]] | None:
        return found(stack.call("GET", f"{P}/jobs?parent={first}", token=agent))["items"] or None

    (follower,) = poll("the follower appears", 60, followers)
    assert (follower["summary"], follower["status"]) == ("Follow up", "published")
    found(stack.call("POST", f"{P}/jobs/{follower['id']}/cancel", {"reason": "enough"}, token=agent))


def test_a_plan_becomes_real_and_is_reviewed(stack: Deployed, agent: str) -> None:
    body = {"jobs": [{"ref": "build", **job()}, {"ref": "review", **job(blocked_by=["build"])}]}
    jobs = made(stack.call("POST", f"{P}/plans", body, token=agent, key="plan"))["jobs"]
    assert found(stack.call("POST", f"{P}/plans", body, token=agent, key="plan"))["jobs"] == jobs
    assert status(stack, agent, jobs["build"]) == "published"
    complete(stack, agent, jobs["build"])
    reached(stack, agent, jobs["review"], "published")
    path = f"{P}/jobs/{jobs['review']}"
    fence = found(stack.call("POST", f"{path}/claim", {}, token=agent))["claim"]["fence"]
    rejection = {"fence": fence, "target": jobs["build"], "reason": "the tests are missing"}
    retry = found(stack.call("POST", f"{path}/reject", rejection, token=agent))["retry"]["id"]
    context = found(stack.call("GET", f"{P}/jobs/{retry}/reopen-context", token=agent))
    assert context["reason"] == "the tests are missing"
    assert status(stack, agent, jobs["review"]) == "pending"
    graph = found(stack.call("GET", f"{P}/jobs/{retry}/graph", token=agent))
    assert {node["id"] for node in graph["nodes"]} == {*jobs.values(), retry}
    complete(stack, agent, retry)
    reached(stack, agent, jobs["review"], "published")
    found(stack.call("POST", f"{path}/cancel", {"reason": "enough"}, token=agent))


def test_a_question_is_answered_one_expires_and_one_is_closed_by_the_bus(
    stack: Deployed, owner: str, agent: str
) -> None:
    one = made(stack.call("POST", f"{P}/jobs", job(), token=agent))["job"]["id"]
    path = f"{P}/jobs/{one}"
    claim = {"heartbeat_seconds": 300, "session": "s"}
    fence = found(stack.call("POST", f"{path}/claim", claim, token=agent))["claim"]["fence"]
    asked = {"fence": fence, "kind": "question", "prompt": "Which?", "blocker": "b", "risk": "r"}

    def ask(**more: Any) -> str:
        answer = made(stack.call("POST", f"{path}/decisions", {**asked, **more}, token=agent))
        return str(answer["decision"]["id"])

    def state(decision: str) -> str:
        return str(found(stack.call("GET", f"{P}/decisions/{decision}", token=owner))["decision"]["state"])

    def becomes(decision: str, wanted: str) -> None:
        poll(f"the decision is {wanted}", 60, lambda: True if state(decision) == wanted else None)

    moot, late, first = ask(wait=False), ask(wait=False, expires_in=2), ask(options=["a", "b"])
    listed = found(stack.call("GET", f"{P}/decisions", token=owner))["items"]
    assert {moot, first} <= {item["id"] for item in listed}
    answered = found(stack.call("POST", f"{P}/decisions/{first}/answer", {"answer": "a"}, token=owner))
    assert answered["job"]["status"] == "unblocked"
    refused, problem = stack.call("POST", f"{P}/decisions/{first}/answer", {"answer": "b"}, token=owner)
    assert (refused, problem["code"]) == (409, "decision_closed")
    becomes(late, "expired")
    beat = found(stack.call("POST", f"{P}/heartbeat", {"session": "s"}, token=agent))
    assert "decision_answered" in {notice["code"] for notice in beat["notices"]}
    found(stack.call("POST", f"{path}/cancel", {"reason": "enough", "fence": fence}, token=agent))
    becomes(moot, "withdrawn")


def test_caps_budgets_and_a_stop_bind_an_agent(stack: Deployed, owner: str, agent: str) -> None:
    me = found(stack.call("GET", f"{P}/me", token=agent))["actor"]["id"]
    found(stack.call("PATCH", f"{P}/agents/{me}", {"max_claims": 1}, token=owner))
    found(stack.call("PATCH", f"{P}/roles/developer", {"daily_budget": {"usd": 500}}, token=owner))
    one, other = (
        made(stack.call("POST", f"{P}/jobs", job(budget={"usd": 1}), token=agent))["job"]["id"]
        for _ in range(2)
    )
    fence = found(stack.call("POST", f"{P}/jobs/{one}/claim", {}, token=agent))["claim"]["fence"]
    refused, problem = stack.call("POST", f"{P}/jobs/{other}/claim", {}, token=agent)
    assert (refused, problem["code"]) == (409, "cap_reached")
    report = {"jobs": [{"id": one, "fence": fence, "usage": {"usd": 1.5}}]}
    (claim,) = found(stack.call("POST", f"{P}/heartbeat", report, token=agent))["claims"]
    assert claim["status"] == "blocked"
    raised = {"answer": "raise", "data": {"usd": 5}}
    found(stack.call("POST", f"{P}/decisions/{claim['decision']}/answer", raised, token=owner))
    found(stack.call("POST", f"{P}/jobs/{one}/resume", {"fence": fence}, token=agent))
    found(stack.call("POST", f"{P}/agents/{me}/stop", {"reason": "enough", "then": "cancel"}, token=owner))
    assert status(stack, agent, one) == "cancelled"
    refused, problem = stack.call("POST", f"{P}/jobs/{other}/claim", {}, token=agent)
    assert (refused, problem["code"]) == (409, "stop_requested")
    workers = found(stack.call("GET", f"{P}/workers", token=owner))["items"]
    assert [worker["state"] for worker in workers if worker["agent"] == me] == ["paused"]
    found(stack.call("POST", f"{P}/resume", {"agent": me}, token=owner))
    found(stack.call("PATCH", f"{P}/agents/{me}", {"max_claims": None}, token=owner))
    found(stack.call("POST", f"{P}/jobs/{other}/cancel", {"reason": "enough"}, token=agent))


def said(
    stack: Deployed, method: str, params: dict[str, Any], token: str, *, modern: bool = False
) -> dict[str, Any]:
    """The result of a message to the MCP server, as a client of either kind of revision says it."""
    body, headers = message(method, params, modern=modern)
    answer = found(stack.call("POST", "/mcp", body, token=token, headers=headers))
    result: dict[str, Any] = answer["result"]
    return result


@pytest.mark.parametrize("modern", [False, True])
def test_a_job_is_published_claimed_and_completed_by_tools(stack: Deployed, agent: str, modern: bool) -> None:
    def tool(name: str, **arguments: Any) -> dict[str, Any]:
        result = said(stack, "tools/call", {"name": name, "arguments": arguments}, agent, modern=modern)
        assert "isError" not in result, result
        shown: dict[str, Any] = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == shown
        return shown

    if modern:
        assert revisions.MODERN in said(stack, "server/discover", {}, agent, modern=True)["supportedVersions"]
    else:
        asked = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        assert said(stack, "initialize", asked, agent)["protocolVersion"] == "2025-11-25"
    assert [each["name"] for each in said(stack, "tools/list", {}, agent, modern=modern)["tools"]] == [*ROWS]
    made = [tool("publish_job", **job(), idempotency_key=f"{modern}")["job"]["id"] for _ in range(2)]
    assert made[0] == made[1]
    claim = tool("claim_job", job=made[0])
    assert [held["job"] for held in tool("heartbeat")["claims"]] == [made[0]]
    fence = claim["claim"]["fence"]
    assert (
        tool("complete_job", job=made[0], fence=fence, result={"summary": "done"})["job"]["status"]
        == "completed"
    )
    assert tool("get_job", job=made[0])["job"]["result"]["summary"] == "done"
    plan = {"jobs": [{"ref": "a", **job()}, {"ref": "b", **job(blocked_by=["a"])}]}
    for planned in reversed(tool("publish_plan", **plan)["jobs"].values()):
        tool("set_job_status", job=planned, action="cancel", reason="enough")


def test_mcp_refuses_strangers_and_other_methods(stack: Deployed, owner: str) -> None:
    body, headers = message("ping")
    status, shown, problem = stack.ask("POST", "/mcp", body, headers=headers)
    assert (status, problem["code"]) == (401, "token_missing")
    assert shown["www-authenticate"].startswith("Bearer resource_metadata=")
    for method in ("GET", "DELETE"):
        status, shown, problem = stack.ask(method, "/mcp", token=owner)
        assert (status, shown["allow"], problem["code"]) == (405, "POST", "method_not_allowed")
    assert stack.call("POST", "/mcp", body, token=owner)[0] == 403, "it belongs to no project"


def test_nothing_ended_as_a_dead_letter(stack: Deployed) -> None:
    for queue in ("LeaseDead", "BarrierDead", "RoutingDead", "DispatchDead"):
        asked = stack.cloud.client("sqs").get_queue_attributes(
            QueueUrl=stack.names[queue], AttributeNames=["ApproximateNumberOfMessages"]
        )
        assert asked["Attributes"]["ApproximateNumberOfMessages"] == "0", queue


def test_a_large_payload_goes_through_the_bucket(stack: Deployed, agent: str) -> None:
    text = random.Random(1).randbytes(100_000).hex()
    large = made(stack.call("POST", f"{P}/jobs", job(context={"text": text}), token=agent))["job"]
    shown = found(stack.call("GET", f"{P}/jobs/{large['id']}", token=agent))["job"]
    assert shown["context"] == {"text": text}
    assert stack.cloud.client("s3").list_objects_v2(Bucket=stack.outputs["BucketName"])["KeyCount"] > 0
    found(stack.call("POST", f"{P}/jobs/{large['id']}/cancel", {"reason": "enough"}, token=agent))


def sent(request: dict[str, Any], data: bytes | None = None) -> tuple[int, bytes]:
    """A presigned request; the status and what was answered."""
    headers, method = request.get("headers", {}), request.get("method", "GET")
    try:
        with urlopen(Request(request["url"], data, headers, method=method), timeout=60) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


def test_an_upload_goes_past_the_bus_and_is_verified(stack: Deployed, agent: str) -> None:
    data = random.Random(2).randbytes(300_000)
    job_id = made(stack.call("POST", f"{P}/jobs", job(), token=agent))["job"]["id"]
    announced = {
        "type": "log",
        "name": "run.log",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    slot = made(stack.call("POST", f"{P}/jobs/{job_id}/artifacts", announced, token=agent))
    upload, path = slot["upload"], f"{P}/jobs/{job_id}/artifacts/{slot['artifact']['id']}"
    assert stack.call("POST", f"{path}/verify", {}, token=agent)[1]["code"] == "wrong_state"
    assert sent(upload, data[:-1] + b"x")[0] == 400
    assert sent(upload, data)[0] == 200
    assert sent(upload, data)[0] == 412
    bucket, key = stack.outputs["BucketName"], f"uploads/p1/{job_id}/{slot['artifact']['id']}"
    s3 = stack.cloud.client("s3")

    def tag() -> str:
        (only,) = s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        return str(only["Value"])

    assert tag() == "unverified"
    assert found(stack.call("POST", f"{path}/verify", {}, token=agent))["artifact"]["state"] == "verified"
    assert tag() == "verified"
    shown = found(stack.call("GET", path, token=agent))
    assert sent(shown["download"]) == (200, data)
    s3.put_object(Bucket=bucket, Key=key, Body=b"something else")
    shown = found(stack.call("GET", path, token=agent))
    assert (shown["artifact"]["state"], "download" in shown) == ("altered", False)
    s3.delete_object(Bucket=bucket, Key=key)
    assert found(stack.call("GET", path, token=agent))["artifact"]["state"] == "altered"
    found(stack.call("POST", f"{P}/jobs/{job_id}/cancel", {"reason": "enough"}, token=agent))


def test_roles_were_evaluated_and_none_was_too_narrow(stack: Deployed, agent: str) -> None:
    status, health = stack.call("GET", "/_ministack/health")
    assert (status, health["auth"]) == (200, "enabled")
    assert "AccessDenied" not in stack.cloud.log.read_text(errors="replace")
