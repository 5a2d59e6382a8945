"""Run all benchmarks, or those named on the command line."""

from __future__ import annotations

import sys
from importlib import import_module

SUBJECTS = ("render", "dialects", "journal", "postgres", "chat", "startup", "sandbox")


def main(names: list[str]) -> None:
    for name in names or SUBJECTS:
        import_module(f"bench.{name}").run()


if __name__ == "__main__":
    main(sys.argv[1:])
