"""Prints what a function weighs on Lambda, after ``sam build``: both layers and the handlers, unzipped.

``uv run python -m infra.package_size [BUILD_FOLDER]`` exits with 1 above the budget of 40 MB.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUDGET_MB = 40.0


def megabytes(folder: Path) -> float:
    """The bytes of all files below a folder, in MB."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main(arguments: list[str]) -> int:
    """Measure and print; the exit code."""
    build = Path(arguments[0]) if arguments else ROOT / ".aws-sam" / "build"
    parts = {
        "layer Dependencies": build / "Dependencies",
        "layer Code": build / "Code",
        "functions": ROOT / "functions",
    }
    missing = [str(folder) for folder in parts.values() if not folder.is_dir()]
    if missing:
        print(f"not found: {', '.join(missing)}; run `sam build` first")
        return 1
    sizes = {name: megabytes(folder) for name, folder in parts.items()}
    for name, size in sizes.items():
        print(f"{name:<20}{size:7.2f} MB")
    total = sum(sizes.values())
    print(f"{'together, unzipped':<20}{total:7.2f} MB of {BUDGET_MB:.0f} MB")
    return 0 if total <= BUDGET_MB else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
