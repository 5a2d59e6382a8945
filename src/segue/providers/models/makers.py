"""Which providers have a model, by its name alone."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from segue.providers.addresses import addresses, is_home
from segue.providers.models.cards import dialect_of_model
from segue.providers.models.catalog import catalog, catalog_model


@lru_cache(maxsize=4096)
def providers_with(model: str) -> tuple[str, ...]:
    """Those that the catalog lists for it, and the one whose own models have such names: it may be newer than the catalog. Who
    made it comes first."""
    listed = dict.fromkeys([name for entry in catalog().model for name in entry.providers])
    known = [name for name in listed if catalog_model(name, model) is not None]
    name, dialect = model.lower(), dialect_of_model(model)
    made_by = [
        provider
        for provider, address in addresses().providers.items()
        if any(fnmatchcase(name, pattern) for pattern in address.models)
        or (dialect and is_home(provider, dialect))
    ]
    return tuple(dict.fromkeys((*made_by, *known)))
