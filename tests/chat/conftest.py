"""What several tests of chats look at."""

from __future__ import annotations

from typing import Any

import pytest

from segue.tools.scheduler import Scheduler


@pytest.fixture
def schedulers(monkeypatch: pytest.MonkeyPatch) -> list[Scheduler]:
    """Every scheduler that is made from now on."""
    made: list[Scheduler] = []
    original = Scheduler.__init__

    def counting(self: Scheduler, *args: Any, **settings: Any) -> None:
        made.append(self)
        original(self, *args, **settings)

    monkeypatch.setattr(Scheduler, "__init__", counting)
    return made
