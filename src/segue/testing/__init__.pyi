# Written by python -m scripts.namespaces --write

from segue.testing.provider_checks import Outcome, Report, check_provider
from segue.testing.stage import EmulatedStage, Stage
from segue.testing.store_checks import check_store

__all__ = [
    "EmulatedStage",
    "Outcome",
    "Report",
    "Stage",
    "check_provider",
    "check_store",
]
