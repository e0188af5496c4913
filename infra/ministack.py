"""template.yaml deployed onto ministack: AWS on this machine, without a container.

``uv run python -m infra.ministack`` deploys, prints how to call the API, and keeps it up until Ctrl-C.
``uv run python -m infra.ministack -- COMMAND`` runs a command beside an empty ministack, which INTERLOCK_TEST_ENDPOINT
names (the store's contract suite asks for it), and ends with the command's exit code. Two tools come from the environment or the path: ``SAM_PROGRAM`` (the SAM CLI) and ``MINISTACK_PROGRAM`` (with
aws-sam-translator and boto3 beside it); ``.ci/run`` installs both.

What differs from AWS, and what is done about it:

- functions run on ministack's own Python, so the layers are built for this machine's Python and processor;
- ministack ignores the API's OpenAPI body, so :func:`add_routes` makes the routes that the template names, and it
  answers ``/health`` itself;
- its filter of a stream wants ``exists`` at the attribute, AWS at the leaf: :func:`adapt_filter`. The template's
  own pattern is tested in tests/meta;
- it knows actions like ``sqs:SendMessageBatch``, where AWS asks for ``sqs:SendMessage``: :func:`adapt_rights`;
- it speaks plain HTTP, which the bucket rightly refuses: :func:`deploy` takes the bucket's policy away;
- it evaluates the functions' roles (``AUTH=true``), but neither ``dynamodb:LeadingKeys`` nor throttling, alarms,
  retry limits, bisection and destinations of the stream; partial failures count for queues only.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import boto3

from interlock.local import template as templates

ROOT = Path(__file__).parent.parent
STACK = "interlock"
ROOT_USER = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
T = TypeVar("T")


class DeployError(Exception):
    """Something of the deployment failed; the text is what the tool said."""


def tool(variable: str, name: str) -> str:
    """The path of a tool that ``.ci/run`` installs."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        raise DeployError(f"{name} is missing: name it in {variable}, or run .ci/run, which installs it")
    return found


def poll(what: str, seconds: float, probe: Callable[[], T | None]) -> T:
    """The first answer of ``probe`` that is not None. DeployError after ``seconds``."""
    limit = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer is not None:
            return answer
        if time.monotonic() > limit:
            raise DeployError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Cloud:
    """A running ministack."""

    endpoint: str
    log: Path
    environment: dict[str, str]

    def client(self, service: str) -> Any:
        """A boto3 client of a service, as the account's root."""
        return boto3.Session(**ROOT_USER).client(service, endpoint_url=self.endpoint)


@dataclass(frozen=True, slots=True)
class Deployed:
    """The deployed stack: physical names by logical id, and the stack's outputs."""

    cloud: Cloud
    names: dict[str, str]
    outputs: dict[str, str]
    host: str

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, dict[str, Any]]:
        """One request through the API, as :meth:`ask` takes it: status and JSON answer."""
        status, _, answer = self.ask(method, path, body, **more)
        return status, answer

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], dict[str, Any]]:
        """One request through the API: status, headers (names in lower case) and JSON answer."""
        sent = {"Host": self.host, "content-type": "application/json", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if key:
            sent["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(urlsplit(self.cloud.endpoint).netloc, timeout=60)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            shown = {name.lower(): value for name, value in response.getheaders()}
            return response.status, shown, json.load(response)
        finally:
            connection.close()

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke a function directly, as ``interlock bootstrap`` does."""
        answer = self.cloud.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event).encode())
        payload = json.load(answer["Payload"])
        if "FunctionError" in answer:
            raise DeployError(f"{function} failed: {payload}")
        return payload


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def ministack(folder: Path) -> Iterator[Cloud]:
    """Run ministack on a free local port; at the end it and everything that it started are gone."""
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "INTERLOCK_"))
    }
    environment |= {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "AUTH": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "TMPDIR": str(folder),
    }
    log = folder / "ministack.log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603  the tool that the environment names
            [tool("MINISTACK_PROGRAM", "ministack")],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:

        def ready() -> bool | None:
            if process.poll() is not None:
                raise DeployError(f"ministack ended: {log.read_text()[-2000:]}")
            with socket.socket() as probe:
                return True if probe.connect_ex(("127.0.0.1", port)) == 0 else None

        poll("ministack answers", 60, ready)
        yield Cloud(endpoint, log, environment | {"AWS_ENDPOINT_URL": endpoint, "SAM_CLI_TELEMETRY": "0"})
    finally:
        _stop(process, folder)


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    """End ministack and the workers that it started, which run files below ``folder``."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(15)
    for worker in _workers(folder):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    poll("ministack's workers end", 30, lambda: None if _workers(folder) else True)


def _workers(folder: Path) -> list[int]:
    """Processes that run a file below ``folder`` (Linux)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) + b"/" in command:
            found.append(int(entry.parent.name))
    return found


def _run(arguments: list[str], environment: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(  # noqa: S603  tools that the caller named
        arguments, env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise DeployError(f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def _python_of(program: str) -> str:
    """The version (3.11) of the Python that an installed program runs on."""
    python = Path(program).resolve().parent / "python"
    if not python.exists():
        python = Path(shutil.which("python3") or "python3")
    return _run(
        [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], dict(os.environ), ROOT
    ).strip()


def deploy(cloud: Cloud, folder: Path) -> Deployed:
    """``sam build`` and ``sam deploy`` of the template, then what ministack leaves out."""
    sam = tool("SAM_PROGRAM", "sam")
    build = folder / "build"
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    environment = cloud.environment | {
        "MACHINE": machine,
        "PYTHON_VERSION": _python_of(tool("MINISTACK_PROGRAM", "ministack")),
    }
    _run(
        [sam, "build", "--template", str(ROOT / "template.yaml"), "--build-dir", str(build)],
        environment,
        ROOT,
    )
    adapt_rights(build / "template.yaml")
    _run(
        [
            sam, "deploy", "--template-file", str(build / "template.yaml"), "--stack-name", STACK, "--resolve-s3",
            "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar",
        ],
        environment,
        folder,
    )  # fmt: skip
    formation = cloud.client("cloudformation")
    names = {
        r["LogicalResourceId"]: r["PhysicalResourceId"]
        for page in formation.get_paginator("list_stack_resources").paginate(StackName=STACK)
        for r in page["StackResourceSummaries"]
    }
    stack = formation.describe_stacks(StackName=STACK)["Stacks"][0]
    outputs = {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]}
    port = cloud.endpoint.rpartition(":")[2]
    deployed = Deployed(cloud, names, outputs, f"{names['Api']}.execute-api.localhost:{port}")
    add_routes(deployed)
    adapt_filter(deployed)
    cloud.client("s3").delete_bucket_policy(Bucket=names["Payloads"])
    return deployed


def adapt_rights(template: Path) -> None:
    """Beside each right to send or delete a message, name the batch's, which ministack asks for."""
    text = template.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^( *)- (sqs:(?:Send|Delete)Message)$", r"\1- \2\n\1- \2Batch", text)
    text = re.sub(r"(?m)^( *)Action: (sqs:(?:Send|Delete)Message)$", r"\1Action: [\2, \2Batch]", text)
    template.write_text(text, encoding="utf-8")


def add_routes(deployed: Deployed) -> None:
    """Make the API's routes as the template names them."""
    gateway, functions = deployed.cloud.client("apigatewayv2"), deployed.cloud.client("lambda")
    api = deployed.names["Api"]
    for route in templates.read(ROOT / "template.yaml").routes:
        function = functions.get_function(FunctionName=deployed.names[route.function.name])
        integration = gateway.create_integration(
            ApiId=api,
            IntegrationType="AWS_PROXY",
            IntegrationUri=function["Configuration"]["FunctionArn"],
            PayloadFormatVersion="2.0",
        )["IntegrationId"]
        key = "$default" if route.path == templates.DEFAULT_ROUTE else f"{route.method} {route.path}"
        gateway.create_route(ApiId=api, RouteKey=key, Target=f"integrations/{integration}")


def adapt_filter(deployed: Deployed) -> None:
    """Say ``quiet`` is absent as ministack understands it."""
    pattern = {"dynamodb": {"Keys": {"sk": {"S": ["HEAD"]}}, "NewImage": {"quiet": [{"exists": False}]}}}
    deployed.cloud.client("lambda").update_event_source_mapping(
        UUID=deployed.names["DispatchChanges"],
        FilterCriteria={"Filters": [{"Pattern": json.dumps(pattern)}]},
    )


def _keep_up(cloud: Cloud, folder: Path) -> int:
    """Deploy, say how to call it, wait to be stopped."""
    deployed = deploy(cloud, folder)
    print(f"deployed; try: curl -H 'Host: {deployed.host}' {cloud.endpoint}/openapi.json")
    print(
        f"first owner: AWS_ENDPOINT_URL={cloud.endpoint} AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test \\"
    )
    print(f"             AWS_DEFAULT_REGION=us-east-1 interlock bootstrap --stack {STACK}")
    print("Ctrl-C stops it and forgets everything", flush=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    return 0


def main(arguments: list[str]) -> int:
    """Deploy and stay, or run a command; the exit code."""
    command = arguments[1:] if arguments[:1] == ["--"] else []
    with (
        tempfile.TemporaryDirectory(prefix="interlock-ministack-") as folder,
        ministack(Path(folder)) as cloud,
    ):
        if not command:
            return _keep_up(cloud, Path(folder))
        environment = os.environ | {"INTERLOCK_TEST_ENDPOINT": cloud.endpoint}
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603  the caller's command


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
