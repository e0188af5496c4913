"""Starting is cheap: what a command does not need is not imported."""

import subprocess
import sys

from interlock.cli import main

HEAVY = {"boto3", "botocore", "rich", "yaml", "sqlite3", "aws_lambda_powertools", "waitress"}


def test_help_imports_nothing_heavy():
    code = f"""
import sys
from interlock.cli.main import build
try:
    build()(["job", "--help"])
except SystemExit:
    pass
print(sorted({HEAVY!r} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_printed():
    done = subprocess.run(
        [sys.executable, "-m", "interlock.cli.main", "--version"], capture_output=True, check=True, text=True
    )
    assert done.stdout == f"interlock {main.__version__}\n"
