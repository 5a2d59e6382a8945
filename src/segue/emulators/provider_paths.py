"""Which modules have the routes of a provider, and at which prefix they are mounted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from itertools import takewhile

from msgspec import Struct

from segue.emulators.http import ErrorWords, Handler, Route, find_route

MODULES: Mapping[str, tuple[str, ...]] = {
    "openai": ("openai_chat.routes", "openai_responses.routes", "openai_chat.batch_routes"),
    "anthropic": ("anthropic.routes", "anthropic.batch_routes", "anthropic.file_routes"),
    "gemini": ("gemini.routes", "gemini_interactions.routes", "gemini.batch_routes", "gemini.file_routes"),
    "mistral": ("mistral.routes", "mistral.batch_routes"),
    "kimi": ("kimi.routes",),
    "deepseek": ("deepseek.routes",),
    "ollama": ("ollama.routes", "ollama.v1"),
    "bedrock": (
        "converse.routes",
        "clouds.bedrock_invoke",
        "clouds.bedrock_anthropic",
        "clouds.bedrock_openai",
    ),
    "bedrock-mantle": ("clouds.bedrock_mantle",),
    "claude-aws": ("clouds.claude_aws",),
    "vertex": ("clouds.vertex_gemini", "clouds.vertex_anthropic"),
    "azure": ("clouds.azure_openai", "clouds.azure_anthropic"),
}


class Mounted(Struct, frozen=True):
    """One module of a provider: its routes and its words for errors."""

    provider: str
    routes: tuple[Route, ...]
    errors: ErrorWords


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
        provider: tuple(_mount(provider, module) for module in modules)
        for provider, modules in MODULES.items()
    }


def _mount(provider: str, module: str) -> Mounted:
    # A cloud has the words of the wire that it serves.
    routes = import_module(f"{__package__}.{module}")
    return Mounted(provider, tuple(routes.ROUTES), routes.ERRORS)


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
