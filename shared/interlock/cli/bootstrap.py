"""`interlock bootstrap`: make the first owner of a deployed installation, under the caller's own AWS rights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from interlock.cli import shapes
from interlock.cli.client import RefusedError
from interlock.cli.command import Session, command
from interlock.cli.exits import LATER, REFUSED, RIGHT, CommandError

OUTPUT = "BootstrapFunction"


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(
        root,
        "bootstrap",
        text="Make a deployed installation's first owner.\n\nThe token is shown once. Needs AWS credentials.",
    )
    def bootstrap(
        session: Session,
        stack: Annotated[str, typer.Option(help="The CloudFormation stack's name.")],
        recover: Annotated[
            bool, typer.Option("--recover", help="Make another owner token, with an event.")
        ] = False,
        region: Annotated[
            str | None, typer.Option(help="The AWS region, instead of the configured one.")
        ] = None,
    ) -> None:
        outputs = _outputs(stack, region)
        answer = _invoke(outputs[OUTPUT], {"recover": recover}, region)
        session.show({**answer, "url": outputs.get("ApiUrl")}, shapes.thing)


def _client(service: str, region: str | None) -> Any:
    import boto3

    return boto3.client(service, region_name=region)


def _outputs(stack: str, region: str | None) -> dict[str, str]:
    """The stack's outputs. Refused when it does not name a bootstrap function."""
    answer = _aws(lambda: _client("cloudformation", region).describe_stacks(StackName=stack))
    outputs = {row["OutputKey"]: row["OutputValue"] for row in answer["Stacks"][0].get("Outputs", [])}
    if OUTPUT not in outputs:
        raise CommandError(REFUSED, f"the stack {stack} has no output {OUTPUT}", "Is it an Interlock stack?")
    return outputs


def _invoke(function: str, event: dict[str, Any], region: str | None) -> dict[str, Any]:
    payload = json.dumps(event).encode()
    answer = _aws(lambda: _client("lambda", region).invoke(FunctionName=function, Payload=payload))
    value: Any = json.loads(answer["Payload"].read() or b"null")
    if answer.get("FunctionError") or not isinstance(value, dict):
        raise CommandError(REFUSED, f"the function {function} failed", "Its log group says why.")
    if "problem" in value:
        raise RefusedError(int(value["problem"]["status"]), value["problem"])
    return value


def _aws(call: Callable[[], Any]) -> Any:
    """What AWS answers; its refusals by exit code."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise CommandError(
            REFUSED,
            "bootstrap needs boto3, which the base install leaves out",
            "pip install 'interlock-bus[aws]'",
        ) from None
    try:
        return call()
    except ClientError as error:
        denied = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in {401, 403}
        raise CommandError(RIGHT if denied else REFUSED, f"AWS: {error}") from None
    except BotoCoreError as error:
        raise CommandError(LATER, f"AWS: {error}", "Check the AWS region and credentials.") from None
