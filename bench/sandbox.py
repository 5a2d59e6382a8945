"""What the sandbox adds to a command: time and CPU time of `true` by run_shell, inside against outside, by each mechanism."""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from segue.tools.builtin import builtin_tools
from segue.tools.definition import Tool
from segue.tools.execution import run_tool
from segue.tools.sandbox.mechanisms import candidates, trial
from segue.tools.sandbox.sandbox import Sandbox

ROUNDS = 30
COMMANDS = {"true": "true", "python -c pass": f"{sys.executable} -I -c pass"}


def run() -> None:
    asyncio.run(_run())


async def _run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        held: dict[str, Tool] = {"outside": _shell(Sandbox(root, "off"))}
        held |= {one.name: _shell(Sandbox(root, mechanism=one)) for one in candidates() if not trial(one)}
        for name, command in COMMANDS.items():
            taken: dict[str, list[tuple[float, float]]] = {place: [] for place in held}
            for _ in range(ROUNDS):
                for place, tool in held.items():
                    taken[place].append(await _cost(tool, command))
            times = {
                place: [median(column) for column in zip(*found, strict=True)]
                for place, found in taken.items()
            }
            wall, cpu = times["outside"]
            for place in list(held)[1:]:
                more, more_cpu = times[place]
                print(
                    f"{f'{name}, {place}':<48}{more / wall:>9.2f} × the time outside; {more_cpu / cpu:.2f} × its CPU time"
                    f" (+{(more - wall) * 1000:.0f} ms, +{(more_cpu - cpu) * 1000:.0f} ms)"
                )


def _shell(sandbox: Sandbox) -> Tool:
    return next(
        tool for tool in builtin_tools(sandbox.workspace, sandbox=sandbox) if tool.name == "run_shell"
    )


async def _cost(tool: Tool, command: str) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = await run_tool(tool, {"command": command})
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.error is None
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
