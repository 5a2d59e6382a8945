"""Starts a worker and kills it, as often as it is told to: `python -m integrations.forked_worker MODULE WORDS…`.

Each line of its input is `start` or `kill`. The worker writes to the standard error; it is killed at the end of the input too.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib import import_module


def main(module: str, *words: str) -> None:
    run, child = import_module(module).main, 0
    for line in sys.stdin:
        child = _killed(child)
        if line == "start\n":
            child = os.fork()
            if not child:
                os.dup2(2, 1)
                os.close(0)
                try:
                    run(*words)
                except BaseException:
                    traceback.print_exc()
                os.write(2, b"ended\n")
                os._exit(1)
        sys.stdout.write("done\n")
        sys.stdout.flush()
    _killed(child)


def _killed(child: int) -> int:
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
