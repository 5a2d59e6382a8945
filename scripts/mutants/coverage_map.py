"""Which tests run which line, and how long each takes: one run with a context per test."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from _pytest.runner import runtestprotocol
from coverage import Coverage
from msgspec import Struct

if TYPE_CHECKING:
    from scripts.mutants.changes import Mutant


class CoverageMap(Struct):
    """Tests by the lines they run. A test is a number: its place in `tests`."""

    tests: list[str]
    seconds: list[float]
    """Of the processor, per test."""
    lines: dict[str, dict[int, list[int]]]
    """Per file and line."""

    def tests_of(self, mutant: Mutant) -> list[int]:
        """The tests that can notice a change, the quickest first."""
        lines = self.lines.get(mutant.file, {})
        first, last = mutant.lines
        found = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        if not mutant.in_function:  # run at import, before any test
            found = {test for tests in lines.values() for test in tests}
            found |= {number for number, test in enumerate(self.tests) if _is_about(test, mutant.file)}
        return sorted(
            found, key=lambda test: (not _is_about(self.tests[test], mutant.file), self.seconds[test])
        )


def _is_about(test: str, file: str) -> bool:
    """Whether a test is in the file that mirrors this module: such tests are tried first."""
    return test.partition("::")[0].endswith(f"/test_{Path(file).name}")


class MapWriter:
    """A pytest plugin that runs each test under its own context and writes the map."""

    def __init__(self, root: Path, files: list[str], target: Path) -> None:
        self._root, self._files, self._target = root, files, target

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        seconds: dict[str, float] = {}
        included = [str(self._root / file) for file in self._files]
        coverage = Coverage(data_file=None, config_file=False, include=included)
        coverage.start()
        for number, item in enumerate(session.items):
            following = session.items[number + 1] if number + 1 < len(session.items) else None
            coverage.switch_context(item.nodeid)
            begun = time.process_time()
            reports = runtestprotocol(item, nextitem=following, log=False)
            if any(report.failed for report in reports):
                print(f"left out, because it fails: {item.nodeid}", flush=True)
            elif not any(report.skipped for report in reports):
                seconds[item.nodeid] = time.process_time() - begun
        coverage.stop()
        data = coverage.get_data()
        numbers = {test: number for number, test in enumerate(seconds)}
        lines = {
            Path(file).relative_to(self._root).as_posix(): {
                line: sorted(numbers[test] for test in tests if test in numbers)
                for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        found = CoverageMap(list(seconds), list(seconds.values()), lines)
        self._target.write_bytes(msgspec.json.encode(found))
        return True


def joined_map(paths: list[Path]) -> CoverageMap:
    """The maps of several runs over different tests as one."""
    whole = CoverageMap([], [], {})
    for path in paths:
        part = msgspec.json.decode(path.read_bytes(), type=CoverageMap)
        first = len(whole.tests)
        whole.tests += part.tests
        whole.seconds += part.seconds
        for file, lines in part.lines.items():
            mine = whole.lines.setdefault(file, {})
            for line, tests in lines.items():
                mine.setdefault(line, []).extend(first + test for test in tests)
    return whole
