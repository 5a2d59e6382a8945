"""The chat templates that llama-cpp-python's source distribution carries, asked as servers ask them.

They are fetched for the occasion and only rendered. No template sees whether ids match or results are missing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path, PurePosixPath
from types import GeneratorType
from typing import Any, Final, NoReturn, final

PACKAGE: Final = "llama-cpp-python"
VERSION: Final = "0.3.36"

_GENERATION: Final = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""Marks what the model said, for training; servers skip it."""
_MARK: Final = "a text to be found again"
_MEDIUM: Final = "<medium>"
_GIVEN: Final = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "add_generation_prompt": True,
    "date_string": "01 Jan 2026",
    "datetime": "Jan 01 2026",
}
_TOLD: Final = [
    {"role": "user", "content": "?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call00001", "type": "function", "function": {"name": "read", "arguments": {"n": 1}}}
        ],
    },
    {"role": "tool", "tool_call_id": "call00001", "content": "!"},
    {"role": "assistant", "content": "."},
    {"role": "user", "content": "?"},
]


class RefusedError(Exception):
    """A template called `raise_exception`."""


@final
class ChatTemplate:
    """One template, and what a server finds out about it before it uses it."""

    def __init__(self, name: str, source: str, environment: Any) -> None:
        self.name = name
        self.only_with_tools = name.endswith("tool_use")
        """A model's second template, which servers take when tools are offered."""
        self._template = environment.from_string(_GENERATION.sub("", source))
        self._shows_images = "image" in source
        self._takes_text = self._shows(_MARK)
        self._takes_parts = self._shows([{"type": "text", "text": _MARK}])
        self._takes_objects = not self._complaint(_TOLD, [])

    def complaint(self, body: Mapping[str, Any]) -> str:
        """What the template has against a request on the Chat wire or Ollama's; nothing if it renders."""
        return self._complaint([self._handed(message) for message in body["messages"]], body.get("tools"))

    def _complaint(self, messages: list[Any], tools: list[Any] | None) -> str:
        try:
            self._render(messages, tools)
        except Exception as error:  # templates break in every way there is
            return f"{type(error).__name__}: {error}"
        return ""

    def _render(self, messages: list[Any], tools: list[Any] | None) -> str:
        return str(self._template.render(messages=messages, tools=tools, **_GIVEN))

    def _shows(self, content: Any) -> bool:
        try:
            shown = self._render([{"role": "user", "content": content}], [])
        except Exception:  # it does not take such content
            return False
        return _MARK in shown and f"'{_MARK}'" not in shown and f'"{_MARK}"' not in shown

    def _handed(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message as vLLM, llama.cpp and Ollama hand it to a template."""
        handed = {**message, "content": self._content(message.get("content"))}
        for thoughts in handed.keys() & {"reasoning", "thinking"}:
            handed["reasoning_content"] = handed.pop(thoughts)
        if "tool_calls" in handed:
            handed["tool_calls"] = [self._call(call) for call in handed["tool_calls"]]
        return handed

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        arguments = function["arguments"]
        if isinstance(arguments, str) and self._takes_objects:  # VLM-07
            arguments = json.loads(arguments)
        elif not isinstance(arguments, str) and not self._takes_objects:  # from Ollama's own wire
            arguments = json.dumps(arguments)
        return {**call, "type": "function", "function": {**function, "arguments": arguments}}

    def _content(self, content: str | list[Any] | None) -> str | list[Any]:
        if not isinstance(content, list):
            return content or "" if self._takes_text else [{"type": "text", "text": content or ""}]
        if not self._takes_parts:
            return "\n".join(part.get("text", _MEDIUM) for part in content)
        medium = {"type": "image"} if self._shows_images else {"type": "text", "text": _MEDIUM}
        return [part if part["type"] == "text" else medium for part in content]


def fetched_templates(folder: Path) -> list[ChatTemplate]:
    """All templates of the source distribution."""
    environment = _environment()
    return [
        ChatTemplate(name, source, environment) for name, source in sorted(fetched_sources(folder).items())
    ]


def fetched_sources(folder: Path) -> dict[str, str]:
    """What the templates say, by name; the package index is asked for them."""
    wanted = ["--no-deps", "--no-binary", PACKAGE, "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    subprocess.run(  # noqa: S603 — pip of this very environment; nothing is built but the metadata
        [sys.executable, "-m", "pip", "download", "--quiet", *wanted], check=True, timeout=100
    )
    (archive,) = folder.glob("*.tar.gz")
    return dict(_sources(archive))


def _sources(archive: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as members:
        for member in members:
            path = PurePosixPath(member.name)
            if path.match("llama.cpp/models/templates/*.jinja") and (file := members.extractfile(member)):
                yield path.stem, file.read().decode()


def _environment() -> Any:
    sandbox: Any = import_module("jinja2.sandbox")
    # Not the immutable sandbox: two templates build lists, as llama.cpp allows.
    environment = sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    environment.filters["tojson"] = _to_json
    return environment


def _refuse(reason: str) -> NoReturn:
    raise RefusedError(reason)


def _now(form: str) -> str:
    return datetime(2026, 1, 1, tzinfo=UTC).strftime(form)


def _to_json(value: Any, ensure_ascii: bool = False, **layout: Any) -> str:
    """Without the escapes that jinja's own filter makes for web pages."""
    return json.dumps(value, ensure_ascii=ensure_ascii, default=_listed, **layout)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, GeneratorType):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
