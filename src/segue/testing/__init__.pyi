# Written by python -m scripts.namespaces --write

from segue.testing.emulator_registry import emulated_providers
from segue.testing.fake_service import EmulatedService, FakeService
from segue.testing.provider_checks import CheckOutcome, Report, check_provider
from segue.testing.session_format_checks import check_session_format
from segue.testing.store_checks import check_store

__all__ = [
    "CheckOutcome",
    "EmulatedService",
    "FakeService",
    "Report",
    "check_provider",
    "check_session_format",
    "check_store",
    "emulated_providers",
]
