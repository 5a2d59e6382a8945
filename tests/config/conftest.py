"""Configuration is tested through the command line too, so its fixtures are used here."""

from __future__ import annotations

from cli.conftest import home, segue

__all__ = ["home", "segue"]
