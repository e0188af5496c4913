"""`interlock up` as a child process, for benchmarks and acceptance tests."""

from __future__ import annotations

import json
import os
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
        clean = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        self.log_file = folder / "up.log"
        self.log = self.log_file.open("ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env=clean)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.log_file.read_text()[-2_000:])
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
