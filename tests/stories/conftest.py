"""One strict world of emulators for all stories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from segue.emulators.emulator import Emulator
from segue.emulators.server import Served, serve
from stories.world import StoryResponder, World


@pytest.fixture(scope="session")
def strict_server() -> Iterator[Served]:
    with serve(emulator=Emulator(strict=True, responder=StoryResponder(), log_size=100_000)) as served:
        yield served


@pytest.fixture
def world(strict_server: Served) -> World:
    strict_server.emulator.reset()
    return World(strict_server)
