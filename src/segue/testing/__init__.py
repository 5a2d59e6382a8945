"""Conformance suites for those who write providers, stores, transports and session formats of their own."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.testing.emulator_registry": "emulated_providers",
    "segue.testing.fake_service": "EmulatedService FakeService",
    "segue.testing.provider_checks": "CheckOutcome Report check_provider",
    "segue.testing.session_format_checks": "check_session_format",
    "segue.testing.store_checks": "check_store",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
