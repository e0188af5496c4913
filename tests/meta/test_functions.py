"""The handler modules: a few lines each, loadable by file, on nothing but the package and the layer."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.meta.stack import FUNCTIONS, ROOT, handler_file

from interlock.edges.operations import OPERATIONS

LAYER = ROOT / "infra" / "layer" / "requirements.txt"
RUNTIME = {"boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3"}
"""What Lambda's Python has beside the standard library."""

PROBE = """
import importlib.util, json, sys
out = {}
for name, file in json.load(sys.stdin).items():
    spec = importlib.util.spec_from_file_location("handler_" + name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out[name] = callable(module.handler)
import interlock.store.aws.blobs, interlock.store.aws.queue, interlock.store.aws.table
packages = {name.partition(".")[0] for name, m in list(sys.modules.items())
            if "site-packages" in (getattr(m, "__file__", None) or "")}
print(json.dumps([out, sorted(packages), sorted(n for n in sys.modules if n.startswith("interlock."))]))
"""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_handler_module_says_what_it_is_for_and_does_nothing_else(function: str) -> None:
    source = handler_file(function).read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert len(tree.body) == 3, "a docstring, an import, the handler"
    document, imported, made = tree.body
    assert isinstance(document, ast.Expr)
    assert isinstance(imported, ast.ImportFrom)
    assert (imported.module or "").startswith("interlock.edges")
    assert isinstance(made, ast.Assign)
    assert [ast.unparse(target) for target in made.targets] == ["handler"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operations_module_names_its_route_and_its_operation(operation: str) -> None:
    row = OPERATIONS[operation]
    source = (ROOT / "functions" / row.area / f"{row.verb}.py").read_text(encoding="utf-8")
    assert (
        ast.get_docstring(ast.parse(source)) or ""
    ).lower() == f"{row.method} {row.path}: {row.summary}".lower()
    assert source.endswith(f'handler = handler_for("{operation}")\n')


def test_all_handlers_load_and_need_no_more_than_the_layer_and_the_runtime(tmp_path: Path) -> None:
    files = {name: str(handler_file(name)) for name in FUNCTIONS}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        input=json.dumps(files),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "shared"), "AWS_DEFAULT_REGION": "us-east-1", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    loaded, packages, own = json.loads(done.stdout)
    assert loaded == dict.fromkeys(FUNCTIONS, True)
    layer = {
        line.split("==")[0].replace("-", "_")
        for line in LAYER.read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    foreign = {name for name in packages if not name.startswith("_")} - layer - RUNTIME
    assert not foreign, f"not in the layer: {foreign}"
    assert not [name for name in own if name.startswith(("interlock.cli", "interlock.local"))], (
        "not in the code layer"
    )
