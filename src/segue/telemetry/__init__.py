"""What chats report to OpenTelemetry. Nothing of it is loaded before `instrument` is called."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {"segue.telemetry.switch": "instrument uninstrument"}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
