"""Which provider's routes live in which folders, and at which prefix they are mounted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from itertools import takewhile
from types import ModuleType

from msgspec import Struct

from segue.emulators.http import Handler, Route, find_route

FOLDERS: Mapping[str, tuple[str, ...]] = {
    "openai": ("openai_chat", "openai_responses", "openai_chat.batches"),
    "anthropic": ("anthropic", "anthropic.batches", "anthropic.files"),
    "gemini": ("gemini", "gemini_interactions", "gemini.batches"),
    "mistral": ("mistral", "mistral.batches"),
    "kimi": ("kimi",),
    "deepseek": ("deepseek",),
    "ollama": ("ollama", "ollama.v1"),
    "bedrock": ("converse", "bedrock_invoke", "bedrock_anthropic", "bedrock_openai"),
    "bedrock-mantle": ("bedrock_mantle",),
    "claude-aws": ("claude_aws",),
    "vertex": ("vertex_gemini", "vertex_anthropic"),
    "azure": ("azure_openai", "azure_anthropic"),
}


class Mounted(Struct, frozen=True):
    """One folder of a provider: its routes and its words for errors."""

    provider: str
    routes: tuple[Route, ...]
    errors: ModuleType


class Found(Struct, frozen=True):
    """The handler for a path, or the status that says why there is none."""

    mounted: Mounted
    handler: Handler | None
    params: Mapping[str, str]
    path: str
    """Without the provider's prefix."""
    status: int = 200


@lru_cache(maxsize=1)
def mounted() -> Mapping[str, tuple[Mounted, ...]]:
    return {
        provider: tuple(_mount(provider, folder) for folder in folders)
        for provider, folders in FOLDERS.items()
    }


def _mount(provider: str, folder: str) -> Mounted:
    routes = import_module(f"{__package__}.{folder}.routes")
    # A cloud has the words of the wire that it serves.
    errors = getattr(routes, "errors", None) or import_module(f"{__package__}.{folder}.errors")
    return Mounted(provider, tuple(routes.ROUTES), errors)


def find(method: str, path: str, root: str = "") -> Found | None:
    """Look a path up under its provider's prefix, then at the root for the provider that is served there."""
    prefix, _, rest = path.lstrip("/").partition("/")
    if prefix in mounted():
        return _find_in(mounted()[prefix], method, "/" + rest)
    if root in mounted():
        return _find_in(mounted()[root], method, path)
    return None


def _find_in(folders: tuple[Mounted, ...], method: str, path: str) -> Found:
    statuses = []
    for folder in folders:
        found = find_route(folder.routes, method, path)
        if not isinstance(found, int):
            return Found(folder, found[0], found[1], path)
        statuses.append(found)
    # A cloud serves several wires: the one whose paths begin like this has the words for it.
    nearest = max(folders, key=lambda folder: _shared_steps(folder.routes, path))
    return Found(nearest, None, {}, path, 405 if 405 in statuses else 404)


def _shared_steps(routes: tuple[Route, ...], path: str) -> int:
    """With how many steps of this path one of the routes begins."""
    return max((_same_steps(pattern, path) for _, pattern, _ in routes), default=0)


def _same_steps(pattern: str, path: str) -> int:
    pairs = zip(pattern.strip("/").split("/"), path.strip("/").split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] or pair[0].startswith("{"), pairs))
