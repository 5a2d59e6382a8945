"""Fixtures of the command line's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here, Home
from segue.emulators.pytest_plugin import segue_emulator_server
from segue.emulators.server import Served

__all__ = ["segue_emulator_server"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def segue(home: Home, monkeypatch: pytest.MonkeyPatch) -> Here:
    """segue in this process, in a home of its own."""
    return home.here(monkeypatch)


@pytest.fixture
def asked(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Here:
    """segue in this process, where emulated providers answer."""
    return cloud.home.here(monkeypatch)


@pytest.fixture
def cloud(home: Home, segue_emulator_server: Served) -> Cloud:
    """Emulated providers, and a home whose environment leads to them."""
    return Cloud(home, segue_emulator_server)
