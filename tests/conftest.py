"""Settings of the whole suite."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from postgres_server import PLACE
from strategies.samples import DAY

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
_PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink]
settings.register_profile(
    "default", max_examples=30, deadline=None, derandomize=True, suppress_health_check=_QUIET, phases=_PHASES
)
# Fresh examples in every run: `make laws` prints its seed and how to repeat the run.
settings.register_profile(
    "laws",
    max_examples=int(os.environ.get("LAW_EXAMPLES", "4000")),
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=_QUIET,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """One PostgreSQL server and one day for the run, which its workers inherit."""
    os.environ.setdefault(PLACE, str(Path(tempfile.gettempdir()) / f"segue-tests-{os.getpid()}"))
    os.environ.setdefault(DAY, datetime.now(UTC).date().isoformat())


def pytest_report_header() -> list[str]:
    samples = f"samples: those of {os.environ[DAY]}; repeat them with {DAY}={os.environ[DAY]}"
    if settings().derandomize:
        return [
            f"hypothesis: the same {settings().max_examples} examples in every run; more and fresh ones: make laws, make properties",
            samples,
        ]
    return ["hypothesis: fresh examples; a run is repeated with the same --hypothesis-seed", samples]


for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    number = getattr(signal, name, None)  # Windows has no SIGHUP
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        # A run in the background of a script, or under nohup, inherits this, and with it every process that a test interrupts.
        signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that shows a requirement says so in its report, where the check below finds it."""
    for item in items:
        for marker in item.iter_markers("requirement"):
            item.user_properties.extend(("requirement", name) for name in marker.args)


def pytest_collection_finish() -> None:
    """Tests and modules stay for the whole run: the collector of garbage need not look through them again and again."""
    gc.freeze()


_SHOWN: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _SHOWN.update(str(value) for name, value in report.user_properties if name == "requirement")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A whole run fails when a requirement that is declared done was shown by no passing test."""
    config = session.config
    partial = config.args != ["tests"] or config.option.keyword or config.option.collectonly
    if partial or hasattr(config, "workerinput") or exitstatus != pytest.ExitCode.OK:
        return
    declared = tomllib.loads((Path(__file__).parent.parent / "docs" / "requirements.toml").read_text())
    done = {
        name for section in declared.values() for name, (status, _) in section.items() if status == "done"
    }
    missing = sorted(done - _SHOWN)
    if missing:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        sys.stderr.write(f"\nDeclared done, but shown by no passing test: {', '.join(missing)}\n")
