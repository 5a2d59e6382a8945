"""Which providers have a model, by its name alone; and which known models a name that nobody has may mean."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

from segue.providers.hosts.addresses import addresses, is_home
from segue.providers.models.cards import dialect_of_model
from segue.providers.models.catalog import catalog, catalog_model

_MOST_SIMILAR = 3


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


def similar_models(name: str, provider: str = "") -> tuple[str, ...]:
    """Known models that a name may mean, as provider/model, the newest first: those that contain all its words (`sonnet`), else
    those that are spelt nearly so. With `provider`, of that one only."""
    asked = name.lower()
    known = {
        model.id: f"{provider or model.providers[0]}/{model.id}"
        for model in catalog().model
        if model.type == "chat" and (not provider or provider in model.providers)
    }
    words = [word for word in re.split(r"[^a-z0-9.]+", asked) if word]
    containing = [model for model in known if words and all(word in model.lower() for word in words)]
    near = containing or get_close_matches(asked, known, n=_MOST_SIMILAR, cutoff=0.7)
    if not near:  # `sonet`: each word may be misspelt
        spelt = {word for model in known for word in re.split(r"[^a-z0-9.]+", model.lower())}
        meant = [get_close_matches(word, spelt, n=1, cutoff=0.8) for word in words]
        near = [model for model in known if meant and all(one and one[0] in model.lower() for one in meant)]
    return tuple(known[model] for model in near[:_MOST_SIMILAR])


def model_suggestion(name: str, provider: str = "") -> str:
    """The question whether one of them is meant; "" if there is none."""
    near = similar_models(name, provider)
    return f"Did you mean {' or '.join(near)}?" if near else ""
