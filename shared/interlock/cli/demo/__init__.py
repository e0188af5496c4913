"""`interlock demo`: the main job on real input, in less than a minute and a half."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.cli import around, screen
from interlock.cli.command import wants_json
from interlock.cli.exits import INTERRUPTED, OK, REFUSED, CommandError


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @root.command(
        "demo",
        help="Show the main job on real input.\n\nFour workers rehearse a release of a Git repository by a plan of real commands. One worker is "
        "killed with kill -9, another takes over, the late write is refused; a failure takes what waits for it along, and all of it "
        "comes back; an owner stops an agent that hangs; a review sends work back and accepts the retry; a rule makes the job that "
        "follows; an agent asks, an owner decides, the agent goes on. The ledger is verified.",
        short_help="Show the main job on real input.",
    )
    def demo(
        ctx: typer.Context,
        repo: Annotated[
            Path | None, typer.Option(metavar="PATH", help="A Git repository (default: the one here).")
        ] = None,
        data: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the bus's data there.")] = None,
        keep: Annotated[bool, typer.Option("--keep", help="Leave the bus up.")] = False,
        port: Annotated[int, typer.Option(help="The bus's port; 0 picks a free one.")] = 0,
        json_output: Annotated[
            bool, typer.Option("--json", help="One JSON document on standard output.")
        ] = False,
    ) -> None:
        raise typer.Exit(_run(repo, data, keep, port, as_json=wants_json(json_output, ctx)))


def _run(repo: Path | None, data: Path | None, keep: bool, port: int, *, as_json: bool) -> int:
    try:
        with _interruptible():
            report = _play(repo, data, keep, port, as_json=as_json)
    except KeyboardInterrupt:
        screen.note("interlock: stopped; nothing is left running")
        return INTERRUPTED
    except CommandError as error:
        screen.problem({}, error.detail, error.hint)
        if as_json:
            screen.document({"ok": False, "problems": [error.detail]})
        return error.code
    if as_json:
        screen.document(report)
    return OK if report["ok"] else REFUSED


def _play(repo: Path | None, data: Path | None, keep: bool, port: int, *, as_json: bool) -> dict[str, Any]:
    from interlock.cli.client import Client
    from interlock.cli.demo import crew, scenes
    from interlock.cli.demo.repo import checkout, remove
    from interlock.cli.demo.show import Show
    from interlock.cli.demo.story import Story
    from interlock.cli.settings import Settings

    stage = Path(tempfile.mkdtemp(prefix="interlock-demo-")).resolve()
    folder = (data or stage / ".interlock").absolute()
    bus, stays = None, False
    try:
        with Show(sys.stderr if as_json else sys.stdout) as show, checkout(repo, stage, show.say) as work:
            show.say(f"{work.origin} at {work.commit[:10]}, in a temporary worktree")
            bus, greeting = crew.start_bus(folder, port, stage / "bus.log")
            show.say(f"the bus is up at {greeting['url']}")
            settings = Settings(greeting["url"], greeting["project"], greeting["owner_token"])
            story = Story(show, Client(settings, "owner"), work, stage)
            try:
                scenes.play(story)
            finally:
                crew.end(*(worker.process for worker in story.workers.values()))
            show.still()
            show.summary(story.rows())
            _tell(show, story)
            report = story.report()
            if keep:
                _how_to_go_on(show, greeting, folder, stage)
                stays = True
                report |= {"url": greeting["url"], "pid": bus.pid, "data": str(folder)}
        return report
    finally:
        if bus and not stays:
            crew.end(bus)
        if not stays:
            remove(stage)


def _tell(show: Any, story: Any) -> None:
    found = story.found
    if "graph" in found:
        show.line("The graph as it ended:")
        names = {job: name for name, job in story.ids.items()}
        for text in around.graph(found["graph"], "", lambda node: str(names.get(node["id"]))):
            show.line(text)
        show.line()
    if found.get("ledger", {}).get("ok"):
        ledger = found["ledger"]
        show.line(f"ledger: {ledger['events']} events in {ledger['entities']} chains, every digest verified")
    for problem in story.problems:
        show.line(f"WRONG: {problem}")
    if not story.problems:
        killed, review = found["killed"], found["review"]
        stopped, decided = found["stopped"], found["decision"]
        show.line(
            f"{killed['worker']} was killed in mid-job; somebody else finished it, and the late write was refused."
        )
        show.line(
            f"{review['written_by']}'s notes were sent back by {review['rejected_by']}, mended by {review['mended_by']}, "
            f"accepted by {review['accepted_by']}."
        )
        show.line(
            f"{stopped['worker']} hung and was stopped by an owner; somebody else did the job. {decided['asked_by']} asked, and an "
            f"owner decided: {decided['answer']}."
        )
        show.line(f"Every job is completed. {show.seconds:.0f} s in all.")


def _how_to_go_on(show: Any, greeting: Mapping[str, Any], folder: Path, stage: Path) -> None:
    show.line(f"The bus stays up at {greeting['url']}, its data in {folder}.")
    if folder.name == ".interlock":
        show.line(f"  use it:   cd {folder.parent} && interlock job list")
    else:
        show.line(f"  use it:   INTERLOCK_URL={greeting['url']} and a token of {folder / 'credentials.json'}")
    show.line(f"  stop it:  kill {greeting['pid']}")
    show.line(f"  logs and what was built: {stage}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the demo once, and it tidies up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number in numbers if before[number] != signal.SIG_IGN]

    def interrupt(*_: object) -> None:
        for number in heeded:
            signal.signal(number, signal.SIG_IGN)  # nothing interrupts the tidying up
        raise KeyboardInterrupt

    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
