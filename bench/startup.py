"""What it costs to begin: CPU time of whole processes, against a bare interpreter and against the HTTP client."""

from __future__ import annotations

import resource
import subprocess
import sys
from statistics import median

ROUNDS = 9
_BARE = ("-c", "pass")
_SCRIPT = "import sys; from segue.cli import main; sys.exit(main())"
"""What the installed command consists of."""
_SUBJECTS = {
    "import aiohttp": ("-c", "import aiohttp"),
    "import segue": ("-c", "import segue"),
    "from segue import Chat": ("-c", "from segue import Chat"),
    "segue --version": ("-c", _SCRIPT, "--version"),
    "segue --help": ("-c", _SCRIPT, "--help"),
}


def run() -> None:
    taken: dict[str, list[float]] = {name: [] for name in ("bare", *_SUBJECTS)}
    for _ in range(ROUNDS):
        for name, words in {"bare": _BARE, **_SUBJECTS}.items():
            taken[name].append(_cpu_seconds(words))
    cost = {name: median(times) for name, times in taken.items()}
    client = cost["import aiohttp"] - cost["bare"]
    for name in ("import segue", "from segue import Chat"):
        print(
            f"{name:<48}{(cost[name] - cost['bare']) / client:>9.2f} × importing aiohttp, above a bare interpreter"
        )
    for name in ("segue --version", "segue --help"):
        print(f"{name:<48}{cost[name] / cost['bare']:>9.2f} × a bare interpreter")


def _cpu_seconds(words: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
