"""The emulators, in this process and on a port."""

from __future__ import annotations

from segue.emulators.pytest_plugin import segue_emulator, segue_emulator_server

__all__ = ["segue_emulator", "segue_emulator_server"]
