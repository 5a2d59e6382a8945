"""A model that does what standard tests of frameworks ask for: it calls the tool that is meant, with the numbers that it read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from segue.emulators import Call, Reply, Say, Think
from segue.emulators.model.model_reply import Offer, Piece, Prompt
from segue.emulators.model.responder import ToolCallingResponder


class ObedientModel:
    """Calls the first tool if its name, or a word of it, is in the prompt, or if it must; then answers in words."""

    def __init__(self) -> None:
        self._values = ToolCallingResponder()

    def reply(self, prompt: Prompt) -> Reply:
        thoughts: list[Piece] = [Think("What is asked for?")] if prompt.thinking else []
        if prompt.schema is not None:
            return Reply(pieces=(*thoughts, Say(json.dumps(self._value(prompt.schema, prompt.text)))))
        if "JSON" in prompt.text and not prompt.tools:
            named = re.findall(r"'(\w+)'", prompt.text)
            return Reply(pieces=(*thoughts, Say(json.dumps(dict.fromkeys(named, "word")))))
        if prompt.results or not prompt.tools:
            return Reply(
                pieces=(*thoughts, Say(f"Hello, I read: {prompt.text[:80]} {' '.join(prompt.results)}"))
            )
        meant = [offer for offer in prompt.tools if _is_meant(offer, prompt.text)] or [
            *(prompt.tools[:1] if prompt.must_call else ())
        ]
        calls = [Call(offer.name, self._value(offer.schema, prompt.text)) for offer in meant]
        return Reply(pieces=(*thoughts, *calls) if calls else (*thoughts, Say("Nothing to call.")))

    def _value(self, schema: Mapping[str, Any], text: str) -> Any:
        made = self._values.value(schema, schema)
        numbers = [int(number) for number in re.findall(r"\d+", text)]
        quoted = re.findall(r"""['"](\w+)['"]""", text)
        properties = schema.get("properties", {})
        for name, part in properties.items() if isinstance(made, dict) else ():
            if part.get("type") == "integer" and numbers and name in schema.get("required", ()):
                made[name] = numbers[0]
            if part.get("type") == "string" and quoted:
                made[name] = quoted[0]
        return made

    def reset(self) -> None:
        """Nothing is remembered."""


def _is_meant(offer: Offer, text: str) -> bool:
    return any(word in text.lower() for word in offer.name.lower().split("_"))
