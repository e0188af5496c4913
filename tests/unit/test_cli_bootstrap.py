"""`interlock bootstrap`: the stack's function is invoked, the token printed once; without boto3 it says what to do."""

import builtins
import io
import json

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from tests.unit.cli_stub import cli


class Aws:
    """CloudFormation and Lambda of one stack, as far as bootstrap uses them."""

    def __init__(self, answer, outputs=None, error=None):
        self.answer, self.error, self.invoked = answer, error, []
        self.outputs = (
            outputs if outputs is not None else {"BootstrapFunction": "boot", "ApiUrl": "https://api"}
        )

    def client(self, service, region_name=None):
        self.region = region_name
        return self

    def describe_stacks(self, StackName):
        if self.error:
            raise self.error
        return {
            "Stacks": [
                {"Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in self.outputs.items()]}
            ]
        }

    def invoke(self, FunctionName, Payload):
        self.invoked.append((FunctionName, json.loads(Payload)))
        return {
            "Payload": io.BytesIO(json.dumps(self.answer).encode()),
            **({"FunctionError": "Unhandled"} if self.answer is None else {}),
        }


@pytest.fixture
def aws(monkeypatch):
    def use(*args, **more):
        made = Aws(*args, **more)
        monkeypatch.setattr(boto3, "client", made.client)
        return made

    return use


def test_the_token_is_printed_once(aws):
    made = aws({"token": "il_own_installation.o.s"})
    ended = cli("bootstrap", "--stack", "s", "--region", "eu-north-1", "--json", token=None)
    assert ended.code == 0
    assert ended.document == {"token": "il_own_installation.o.s", "url": "https://api"}
    assert made.invoked == [("boot", {"recover": False})]
    assert made.region == "eu-north-1"


def test_recover_is_passed_on_and_a_person_sees_the_token_on_a_line(aws):
    made = aws({"token": "il_own_installation.o.s"})
    ended = cli("bootstrap", "--stack", "s", "--recover", token=None)
    assert "il_own_installation.o.s\n" in ended.out
    assert made.invoked == [("boot", {"recover": True})]


def test_a_second_bootstrap_is_a_conflict(aws):
    aws(
        {
            "problem": {
                "status": 409,
                "code": "already_exists",
                "detail": "it has its first owner",
                "hint": "--recover",
            }
        }
    )
    ended = cli("bootstrap", "--stack", "s", "--json", token=None)
    assert ended.code == 4
    assert ended.document["code"] == "already_exists"
    assert "--recover" in ended.err


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"outputs": {}}, 1),
        (
            {
                "error": ClientError(
                    {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}, "x"
                )
            },
            5,
        ),
        (
            {
                "error": ClientError(
                    {"Error": {"Code": "ValidationError"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "x"
                )
            },
            1,
        ),
        ({"error": NoCredentialsError()}, 75),
    ],
)
def test_what_aws_refuses_has_its_exit_code(aws, more, code):
    made = aws({"token": "t"}, **more)
    ended = cli("bootstrap", "--stack", "s", token=None)
    assert (ended.code, ended.out, made.invoked) == (code, "", [])


def test_a_function_that_fails_is_refused(aws):
    aws(None)
    assert cli("bootstrap", "--stack", "s", token=None).code == 1


def test_without_boto3_it_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **more):
        if name.startswith(("boto3", "botocore")):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    ended = cli("bootstrap", "--stack", "s", token=None)
    assert ended.code == 1
    assert "interlock-bus[aws]" in ended.err
