"""How the servers that use the wire of OpenAI Chat differ, as data: one file for each in `servers/`.

A file names what is not as with most; `like` names the server that it takes all else from. A new server is a new file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, final

import msgspec
from msgspec import Struct

from segue.dialects.registry import SERVERS
from segue.transcript.rules import Rules

HELD_FILE = "file-id:"
"""How we write the address of a file that the provider holds."""
_OPTIONS: Final = {name: name for name in ("temperature", "top_p", "seed", "stop")}


@final
class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server that uses this wire. The defaults are what nearly all of them agree on; `servers/` has a file for each."""

    rules: Rules
    thoughts: Literal["", "reasoning_content", "reasoning"] = "reasoning_content"
    """The field in which reasoning comes, and in which it goes back if it may."""
    inline_thoughts: bool = False
    """Reasoning may stand in `<think>` tags at the start of the text, where no parser took it out."""
    details: bool = False
    """Sealed reasoning goes back as `reasoning_details`."""
    text_parts: bool = False
    """Several texts are sent as parts of one content, not joined into one string."""
    silence: Literal["null", "empty", "omit"] = "null"
    """The content of a message that only calls."""
    result_names: bool = False
    """Results bear their tool's name."""
    cites: bool = False
    """Citations stand in the content."""
    schema: Literal["object_root", "kimi", "mistral", "ollama"] = "object_root"
    """The flavour of JSON Schema that it takes for tools."""
    parameters_optional: bool = False
    """A tool without parameters need not show an (empty) schema; others refuse it (KIM-14, MMX-01)."""
    description_needed: bool = False
    """Also a tool that nobody described must have an (empty) description."""
    strict: Literal["fitting", "any", "never"] = "fitting"
    """Of which schemas a tool may ask that they are followed to the letter."""
    tools_max: int = 0
    """At most this many tools; 0 is no limit."""
    choices: frozenset[str] = frozenset({"auto", "none", "required", "named"})
    required: str = "required"
    """Its word for a choice that must be a tool."""
    parallel_switch: bool = True
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    options: Mapping[str, str]
    """Options by the names it gives them; an empty name for one that it does not know."""
    most: Mapping[str, int] = {}
    """The highest values of options that it takes; of a list, how many."""
    drawn: frozenset[str] = frozenset({"temperature", "top_p", "top_k", "repeat_penalty"})
    """Those of them that a model with fixed sampling refuses."""
    json_schema: bool = True
    thinking: Literal["", "effort", "switch"] = "effort"
    """How thinking is asked for where nothing is known about the model."""
    effort: str = "reasoning_effort"
    """The field that takes a degree of effort, and below the one that turns thinking on and off."""
    efforts: tuple[str, ...] = ()
    switch: str = ""
    switch_words: tuple[Any, Any] = ("disabled", "enabled")
    budget: str = ""
    counts_asked: bool = True
    """Whether a stream reports its usage only where that is asked for; else asking is refused."""
    always: Mapping[str, Any] = {}
    """Fields that every request has."""
    fields: frozenset[str] | None = None
    """Further fields it takes; `None` where it does not mind those it does not know."""
    reads_thoughts: bool = True
    """Whether it reads or skips thoughts that come back in a history, so that its clients may be given them."""
    shows_images: bool = False
    developer: bool = True
    """Whether it knows the role `developer`, which means the same as `system`."""

    @property
    def name(self) -> str:
        return self.rules.target.dialect


@cache
def variant_of(name: str) -> Variant:
    """The server of this name; its file is read when it is first asked for."""
    return msgspec.convert(_read(name), Variant)


def _read(name: str) -> dict[str, Any]:
    own = tomllib.loads((SERVERS / f"{name}.toml").read_text("utf-8"))
    base = _read(own.pop("like")) if "like" in own else {"rules": {}, "options": _OPTIONS}
    rules = {"home": name, **own.get("rules", {}), "target": {"dialect": name}}
    return {
        **base,
        **own,
        "rules": {**base["rules"], **rules},
        "options": {**base["options"], **own.get("options", {})},
    }
