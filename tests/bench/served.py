"""`interlock up` as a child process, for benchmarks and acceptance tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType


class Served:
    """A running bus on a free port; ends with the `with` block."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "interlock.cli.main",
            "up",
            "--json",
            "--port",
            "0",
            "--data",
            str(folder / "bus"),
            *options,
        ]
        self.log = (folder / "up.log").open("ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError((folder / "up.log").read_text()[-2_000:])
        self.first = json.loads(line)
        self.url, self.pid = self.first["url"], self.first["pid"]
        self.owner_token, self.agent_token = self.first["owner_token"], self.first["agent_token"]

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> int:
        """End it cleanly; its exit code."""
        self.process.terminate()
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return code

    def memory_mb(self) -> float:
        """Resident memory now (Linux)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0
