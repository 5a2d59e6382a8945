"""Fixtures of the command line's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Here, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def segue(home: Home, monkeypatch: pytest.MonkeyPatch) -> Here:
    """segue in this process, in a home of its own."""
    return home.here(monkeypatch)
