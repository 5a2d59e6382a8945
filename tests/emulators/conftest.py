from typing import TYPE_CHECKING

from segue.emulators.pytest_plugin import segue_emulator, segue_emulator_server

if TYPE_CHECKING:
    import pytest

__all__ = ["segue_emulator", "segue_emulator_server"]


def pytest_configure(config: "pytest.Config") -> None:
    config.addinivalue_line("markers", "rule(*ids): the rules of the rulebooks that this test shows")
