"""Cold start: what importing a handler costs, with boto3, in a fresh process. Prints figures, judges nothing.

python -m tests.bench.imports [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATEMENTS = {
    "python alone": "pass",
    "import boto3": "import boto3",
    "import pydantic": "import pydantic",
    "handler jobs.create": "{load}('jobs/create.py')",
    "handler jobs.create and boto3": "import boto3; {load}('jobs/create.py')",
    "handler claims.next and boto3": "import boto3; {load}('claims/next.py')",
    "handler system.mcp and boto3": "import boto3; {load}('system/mcp.py')",
    "handler stream.dispatch and boto3": "import boto3; {load}('stream/dispatch.py')",
    "handler queues.lease and boto3": "import boto3; {load}('queues/lease.py')",
    "jobs.create, first DynamoDB client made": "import boto3; {load}('jobs/create.py'); boto3.client('dynamodb', region_name='eu-west-1')",
    "core of the MCP server, beyond pydantic": "import pydantic; t = time.perf_counter(); import interlock.edges.mcp.transport",
}
_LOAD = "(lambda p: __import__('runpy').run_path({root!r} + '/functions/' + p))"


def main() -> None:
    """Print the minimum and the median of each statement, in ms."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'ms':>8} {'median':>8}  statement ({runs} fresh processes each)")
    for name, statement in STATEMENTS.items():
        code = statement.format(load=_LOAD.format(root=str(ROOT)))
        timed = f"import time, sys; sys.path.insert(0, {str(ROOT / 'shared')!r}); t = time.perf_counter(); {code}; print((time.perf_counter() - t) * 1000)"
        times = [
            float(
                subprocess.run(
                    [sys.executable, "-c", timed], capture_output=True, text=True, check=True
                ).stdout
            )
            for _ in range(runs)
        ]
        print(f"{min(times):8.0f} {statistics.median(times):8.0f}  {name}")


if __name__ == "__main__":
    main()
