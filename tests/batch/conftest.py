"""Fixtures of the tests of batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batch.worlds import World, emulated


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with emulated(tmp_path) as made:
        yield made
