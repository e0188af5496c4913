"""Plans from files: YAML and JSON give the JSON that was meant, or a refusal that says where it is wrong."""

import json

import pytest
from tests.unit.cli_stub import Stub, cli, serving

from interlock.cli import documents
from interlock.cli.exits import CommandError


def read(tmp_path, text, name="plan.yaml"):
    file = tmp_path / name
    file.write_text(text)
    return documents.of_file(str(file))


def test_yaml_is_read_as_the_json_that_is_meant(tmp_path):
    text = """
jobs:
  - &base {ref: a, role: qa, summary: "on: time"}
  - <<: *base
    ref: b
    blocked_by: [a]
    deadline: 2027-01-01T00:00:00Z
    routing:
      - {role: ops, summary: next, on: failed, when: {field: data.ok, op: eq, value: true}}
    context: {yes: no, at: 12:30, hex: 0x1f, n: 010, f: -1.5e3, big: 123456789012345678901234567890, none: , tilde: ~, inf: .inf}
"""
    first, second = read(tmp_path, text)["jobs"]
    assert first == {"ref": "a", "role": "qa", "summary": "on: time"}
    assert second == {
        "ref": "b", "role": "qa", "summary": "on: time", "blocked_by": ["a"], "deadline": "2027-01-01T00:00:00Z",
        "routing": [{"role": "ops", "summary": "next", "on": "failed", "when": {"field": "data.ok", "op": "eq", "value": True}}],
        "context": {
            "yes": "no", "at": "12:30", "hex": "0x1f", "n": 10, "f": -1_500.0, "big": 123456789012345678901234567890,
            "none": None, "tilde": None, "inf": ".inf",
        },
    }  # fmt: skip


@pytest.mark.parametrize("name", ["plan.json", "plan.yaml", "plan"])
def test_json_is_read_under_any_name(name, tmp_path):
    value = {"jobs": [{"ref": "a", "summary": "\0\ud800 \t", "context": {"n": 1e300}}]}
    assert read(tmp_path, json.dumps(value), name) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "line 2, column 1: the key 'a' is named twice"),
        ('{"a": 1, "a": 2}', "names a key twice"),
        ("{1: x}", "line 1, column 2: a key is text"),
        ("{true: x}", "a key is text"),
        ("? [a]\n: b", "a key is text"),
        ("jobs: [", "line 1, column 8"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: !!binary aGk=", "could not determine a constructor"),
        ("a: \x01", "special characters are not allowed"),
        ("- 1", "does not hold an object"),
        ("", "does not hold an object"),
        ("a: &x [*x]", "larger than anything the bus takes"),
        ("l0: &l0 [1,1,1,1,1,1,1,1]\n" + "".join(f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 8)}]\n" for n in range(1, 9)), "larger than"),
        ('{"a": ' * 3_000, "recursion"),
        ("[" * 3_000, "recursion"),
        ("a: 1" + "0" * 5_000, "digits"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place(text, said, tmp_path):
    with pytest.raises(CommandError) as refused:
        read(tmp_path, text)
    assert refused.value.code == 2
    assert said in refused.value.detail


def test_a_json_file_is_not_read_as_yaml(tmp_path):
    with pytest.raises(CommandError):
        read(tmp_path, "a: 1", "plan.json")


def test_a_file_that_is_not_there_and_standard_input(tmp_path):
    with serving(Stub(lambda _: (200, {"plan": "plan_1", "jobs": {}}))) as stub:
        assert cli("plan", "apply", str(tmp_path / "no.yaml"), url=stub.url).code == 2
        wrong = cli("plan", "apply", "-", url=stub.url, stdin="a: [")
        assert (wrong.code, "standard input, line 1" in wrong.err) == (2, True)
        assert stub.asked == []
        assert cli("plan", "apply", "-", "--key", "k", url=stub.url, stdin="jobs: []").code == 0
    assert (stub.asked[0].key, stub.asked[0].body) == ("k", {"jobs": [], "dry_run": False})
