"""Conformance suites for those who write providers, stores and transports of their own."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.testing.provider_checks": "Outcome Report check_provider",
    "segue.testing.stage": "EmulatedStage Stage",
    "segue.testing.store_checks": "check_store",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
