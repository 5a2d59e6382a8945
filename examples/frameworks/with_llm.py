"""`llm` with any model: its plugin finds the models of all providers that have a key, as `segue/provider/model`.

Run: python -m pip install . llm; python with_llm.py
"""

from __future__ import annotations

import os
import tempfile

import llm

from segue.emulators import Call, Emulator, Reply, Say, ScriptedResponder, Think, serve

replies = [
    Reply(pieces=(Think("Look it up."), Call("weather", {"city": "Oslo"}))),
    Reply(pieces=(Say("It rains in Oslo."),)),
    Reply(pieces=(Say("Take an umbrella."),)),
    Reply(pieces=(Say("As I thought."),)),
]


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


emulator = Emulator(strict=True, responder=ScriptedResponder(replies))
with serve(emulator=emulator) as api, tempfile.TemporaryDirectory() as folder:
    # Emulated APIs answer here. With keys in your environment, none of this is needed: the real ones do.
    os.environ |= {
        "LLM_USER_PATH": folder,
        "GOOGLE_API_KEY": "any",
        "GOOGLE_GEMINI_BASE_URL": api.url("gemini") + "/v1beta",
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": api.url("anthropic"),
    }
    gemini, claude = "segue/gemini/gemini-3.5-flash", "segue/anthropic/claude-sonnet-4-6"
    conversation = llm.get_model(gemini).conversation(tools=[weather])
    for model, words in (
        (gemini, "Weather in Oslo?"),
        (claude, "What do I need?"),
        (gemini, "Are you sure?"),
    ):
        conversation.model = llm.get_model(model)
        print(f"{model}: {conversation.chain(words).text()}")
print("refused:", [entry.message for entry in emulator.log if entry.verdict == "refused"])

# Prints:
# segue/gemini/gemini-3.5-flash: It rains in Oslo.
# segue/anthropic/claude-sonnet-4-6: Take an umbrella.
# segue/gemini/gemini-3.5-flash: As I thought.
# refused: []
