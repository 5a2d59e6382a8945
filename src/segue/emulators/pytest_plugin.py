"""pytest fixtures for any project: ``pytest_plugins = ["segue.emulators.pytest_plugin"]`` in its conftest.py.

- `segue_emulator`: an `App` in this process; `segue_emulator.emulator` scripts and inspects it,
  `segue.emulators.in_process.ask(app, "POST", "/openai/v1/chat/completions", json=…)` talks to it.
- `segue_emulator_server`: the same on a port of its own; `.url("openai") + "/v1"` is what an SDK takes as base_url.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segue.emulators.app import App
from segue.emulators.server import Served, serve

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def segue_emulator() -> App:
    """All providers in this process, without a socket."""
    return App()


@pytest.fixture
def segue_emulator_server() -> Iterator[Served]:
    """All providers on a port of 127.0.0.1 that closes with the test."""
    with serve() as served:
        yield served
