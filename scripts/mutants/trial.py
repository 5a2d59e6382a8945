"""Tries mutants in children of a process that has collected all tests, so that none of them starts anew.

A child exchanges the code of the changed functions and runs the covering tests until one fails. What is run at import
(tables, defaults) cannot be exchanged: such a mutant gets a process of its own.
"""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import pytest
from _pytest.runner import runtestprotocol
from msgspec import Struct

from scripts.mutants.changes import mutated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scripts.mutants.changes import Mutant
    from scripts.mutants.coverage_map import CoverageMap

Fate: TypeAlias = Literal["killed", "endless", "survived", "not run"]
"""`endless`: a test ran out of time, which is noticed too. `not run`: no test runs the changed line."""
_KILLED, _SURVIVED, _NOT_EXCHANGED = 10, 11, 12
_MEMORY = 3 << 30
_MOST_TESTS_AT_IMPORT = 300
"""Of the quickest, for a mutant that needs its own process."""
_MOST_OF_FUNCTION = 4
"""Of a test with many parameters; the quickest."""
_MOST_FIRST = 20
"""Tests of one module that are tried before the quickest."""


@final
class Outcome(Struct, frozen=True):
    """What became of a mutant."""

    mutant: Mutant
    fate: Fate
    test: str = ""
    """The one that noticed."""
    tests: int = 0
    """That run the changed line."""


class _Child(Struct):
    mutant: Mutant
    tests: list[int]
    folder: Path
    deadline: float


class Trials:
    """A pytest plugin that tries mutants instead of running the collected tests."""

    def __init__(
        self,
        root: Path,
        mutants: list[Mutant],
        covering: CoverageMap,
        *,
        workers: int,
        budget: float,
        report: Callable[[Outcome], None],
    ) -> None:
        self._root, self._mutants, self._covering = root, mutants, covering
        self._workers, self._budget, self._report = workers, budget, report
        self._noticed: dict[str, list[int]] = {}
        self._children: dict[int, _Child] = {}
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[str, list[FunctionType]] = {}
        self._caches: list[Any] = []

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._index()
        for mutant in self._mutants:
            tests = self._tests_of(mutant)
            if not tests:
                self._report(Outcome(mutant, "not run"))
            elif not mutant.in_function:
                self._report(self._try_alone(mutant, tests))
            else:
                while len(self._children) >= self._workers:
                    self._reap()
                self._start(mutant, tests)
        while self._children:
            self._reap()
        return True

    def _tests_of(self, mutant: Mutant) -> list[int]:
        """First those that noticed other changes of this module, then the quickest, as far as the budget goes."""
        seconds = 0.0
        tests: list[int] = []
        covering = [test for test in self._covering.tests_of(mutant) if self._name(test) in self._items]
        noticed = [test for test in self._noticed.get(mutant.file, ()) if test in set(covering)]
        of_function: Counter[str] = Counter()
        for test in dict.fromkeys([*noticed, *covering]):
            of_function[function := self._name(test).partition("[")[0]] += 1
            if of_function[function] > _MOST_OF_FUNCTION:
                continue
            seconds += self._covering.seconds[test]
            if tests and seconds > self._budget:
                break
            tests.append(test)
        return tests

    def _name(self, test: int) -> str:
        return self._covering.tests[test]

    def _index(self) -> None:
        """Finds all functions and caches of the package once, before anything is forked."""
        for thing in gc.get_objects():
            if type(thing) is FunctionType:
                self._functions.setdefault(thing.__code__.co_filename, []).append(thing)
            elif type(thing) is _lru_cache_wrapper and str(thing.__module__).startswith("segue."):
                self._caches.append(thing)
        gc.freeze()

    def _start(self, mutant: Mutant, tests: list[int]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        seconds = sum(self._covering.seconds[test] for test in tests)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                code = self._run_child(mutant, tests, folder, seconds)
            except BaseException:  # whatever a mutant does, this process is only a child
                code = _KILLED
            os._exit(code)
        self._children[pid] = _Child(mutant, tests, folder, time.monotonic() + 60 + 15 * seconds)

    def _run_child(self, mutant: Mutant, tests: list[int], folder: Path, seconds: float) -> int:
        os.setsid()
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        limit = int(15 + 3 * seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        if not self._exchange(mutant):
            return _NOT_EXCHANGED
        for cache in self._caches:
            cache.cache_clear()
        for number, test in enumerate(tests):
            (folder / "test").write_text(str(test), "utf-8")
            item = self._items[self._name(test)]
            following = self._items[self._name(tests[number + 1])] if number + 1 < len(tests) else None
            if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
                return _KILLED
        return _SURVIVED

    def _exchange(self, mutant: Mutant) -> bool:
        """Gives every function of the module its new code. False if that cannot be done in place."""
        path = self._root / mutant.file
        whole = compile(mutated(path.read_text("utf-8"), mutant.number), str(path), "exec")
        new: dict[tuple[str, int], list[CodeType]] = {}
        for code in _codes(whole):
            new.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
        changed = 0
        for function in self._functions.get(str(path), ()):
            old = function.__code__
            codes = new.get((old.co_qualname, old.co_firstlineno), [])
            if old in codes:
                continue
            if len(codes) != 1 or len(codes[0].co_freevars) != len(old.co_freevars):
                return False
            function.__code__ = codes[0]
            changed += 1
        return changed > 0

    def _reap(self) -> None:
        """Waits until a child has ended, and ends those whose time is over."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in self._children:
            child = self._children.pop(pid)
            _end_group(pid)
            outcome = self._outcome(child, status)
            shutil.rmtree(child.folder, ignore_errors=True)
            self._report(outcome)
            return
        for other, child in self._children.items():
            if time.monotonic() > child.deadline:
                _end_group(other)
        time.sleep(0.02)

    def _outcome(self, child: _Child, status: int) -> Outcome:
        noted = child.folder / "test"
        number = int(noted.read_text("utf-8") or child.tests[0]) if noted.exists() else child.tests[0]
        test = self._name(number)
        if os.WIFSIGNALED(status):
            return Outcome(child.mutant, "endless", test, len(child.tests))
        match os.WEXITSTATUS(status):
            case code if code == _SURVIVED:
                return Outcome(child.mutant, "survived", "", len(child.tests))
            case code if code == _NOT_EXCHANGED:
                return self._try_alone(child.mutant, child.tests)
            case _:
                before = self._noticed.get(child.mutant.file, [])
                self._noticed[child.mutant.file] = [number, *(one for one in before if one != number)][
                    :_MOST_FIRST
                ]
                return Outcome(child.mutant, "killed", test, len(child.tests))

    def _try_alone(self, mutant: Mutant, tests: list[int]) -> Outcome:
        chosen = tests[:_MOST_TESTS_AT_IMPORT]
        environ = os.environ | {"SEGUE_MUTANT": mutant.name, "HYPOTHESIS_PROFILE": "mutants"}
        options = ["-x", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider"]
        seconds = sum(self._covering.seconds[test] for test in chosen)
        command = [sys.executable, "-m", "pytest", "-p", "scripts.mutants.import_hook", *options]
        command += [self._name(test) for test in chosen]
        try:
            done = subprocess.run(
                command,
                cwd=self._root,
                env=environ,
                capture_output=True,
                check=False,
                timeout=120 + 15 * seconds,
            )
        except subprocess.TimeoutExpired:
            return Outcome(mutant, "endless", "", len(tests))
        return Outcome(mutant, "survived" if done.returncode == 0 else "killed", "", len(tests))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
