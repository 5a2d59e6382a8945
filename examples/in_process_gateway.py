"""OpenAI's and Anthropic's SDK with any model, without a server: the gateway runs in this program.

Run: python examples/in_process_gateway.py (needs the packages `openai` and `anthropic`)
"""

from __future__ import annotations

from typing import Any

import httpx2
from anthropic import Anthropic
from openai import OpenAI

from segue.emulators import Emulator, Reply, Say, ScriptedResponder
from segue.gateway import gateway_app, in_process_transport
from segue.testing import emulated_providers

# Emulated APIs answer here. With keys in your environment `gateway_app()` is all: then the real ones do.
replies = [Reply(pieces=(Say(text),)) for text in ("Hello from Claude.", "Hello from GPT.", "Claude again.")]
emulator = Emulator(strict=True, responder=ScriptedResponder(replies))
app = gateway_app(providers=emulated_providers(emulator))
transport = in_process_transport(app)

openai = OpenAI(http_client=httpx2.Client(transport=transport), api_key="any")
messages: list[Any] = [{"role": "user", "content": "Who are you?"}]
for model in ("anthropic/claude-sonnet-4-6", "openai/gpt-5.5"):
    completion = openai.chat.completions.create(model=model, messages=messages)
    reply = completion.choices[0].message
    print(f"{model}: {reply.content}")
    messages += [
        {"role": "assistant", "content": reply.content or ""},
        {"role": "user", "content": "And now?"},
    ]

anthropic = Anthropic(http_client=httpx2.Client(transport=transport), api_key="any")
with anthropic.messages.stream(
    model="anthropic/claude-sonnet-4-6",
    max_tokens=1000,
    messages=messages,
) as stream:
    print("The same conversation in Anthropic's SDK:", "".join(stream.text_stream))
print(
    "requests:",
    [entry.provider for entry in emulator.log],
    "refused:",
    sum(entry.verdict == "refused" for entry in emulator.log),
)
app.close()

# Prints:
# anthropic/claude-sonnet-4-6: Hello from Claude.
# openai/gpt-5.5: Hello from GPT.
# The same conversation in Anthropic's SDK: Claude again.
# requests: ['anthropic', 'openai', 'anthropic'] refused: 0
