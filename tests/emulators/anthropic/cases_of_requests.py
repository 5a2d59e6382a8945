"""Requests that break a rule of form, or ask a model for what it cannot do."""

from __future__ import annotations

from emulators.anthropic.breaking import (
    ADVICE,
    DIRECTIVE,
    NO_PREFILL,
    VERSION,
    answered,
    case,
    thinks,
    without,
)
from emulators.anthropic.requests import (
    BINDING,
    NEW,
    TOOLS,
    ask,
    assistant,
    call,
    image,
    result,
    system,
    text,
    user,
)
from segue.emulators.anthropic import model_features

REQUEST_CASES = [
    # --- shape
    case("a missing limit", "ANT-05", without(ask(), "max_tokens"), "max_tokens: Field required"),
    case("a missing model", "ANT-04", without(ask(), "model"), "model: Field required"),
    case("an unknown key", "ANT-04", ask(n=2), "n: Extra inputs are not permitted"),
    case(
        "a name in a message",
        "ANT-04",
        ask({**user(), "name": "Ann"}),
        "messages.0.name: Extra inputs are not permitted",
    ),
    case(
        "a foreign key in a call",
        "ANT-04",
        answered(call(index=0)),
        "messages.1.content.0.tool_use.index: Extra inputs are not permitted",
    ),
    case(
        "a foreign key in a cache mark",
        "ANT-04",
        ask(system=[text(cache_control={"type": "ephemeral", "scope": "global"})]),
        "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted",
    ),
    case(
        "a message that is a string",
        "ANT-04",
        {**ask(), "messages": ["hi"]},
        "messages.0: Input does not match the expected shape.",
    ),
    case(
        "content that is an object",
        "ANT-04",
        ask({"role": "user", "content": {"type": "text"}}),
        "messages.0.content: Input should be a valid list",
    ),
    case(
        "an unknown role",
        "ANT-10",
        ask({"role": "tool", "content": "x"}),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    case(
        "a beta field without its header",
        "ANT-04",
        ask(context_management={}),
        "context_management: Extra inputs are not permitted",
        headers={"anthropic-version": "2023-06-01"},
    ),
    case(
        "a file without its beta",
        "ANT-04",
        ask(user({"type": "image", "source": {"type": "file", "file_id": "f"}})),
        "messages.0.content.0.image.source: Input tag 'file' found using 'type' does not match any of the expected"
        " tags: 'base64', 'url'",
        headers={"anthropic-version": "2023-06-01"},
    ),
    case(
        "a result with a foreign block",
        "ANT-29",
        answered(results=[result(content=[{"type": "input_text", "text": "x"}])]),
        "messages.2.content.0.tool_result.content.0: Input tag 'input_text' found using 'type' does not match any of"
        " the expected tags: 'browser_state', 'document', 'image', 'search_result', 'text', 'tool_reference'",
    ),
    case(
        "an OpenAI tool",
        "ANT-04",
        ask(tools=[{"type": "function", "function": {"name": "f"}}]),
        "tools.0: Input tag 'function' found using 'type' does not match any of the expected tags: 'custom'",
    ),
    # --- model and its abilities
    case("an unknown model", "ANT-05", ask(model="claude-sonet-4-5"), "model: claude-sonet-4-5"),
    case(
        "more output than the model has",
        "ANT-05",
        {**ask(), "max_tokens": 128_000},
        "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    ),
    case(
        "an effort the model lacks",
        "ANT-05",
        ask(model="claude-opus-4-6", output_config={"effort": "xhigh"}),
        "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.",
    ),
    case(
        "a temperature in the new version",
        "ANT-03",
        ask(temperature=1),
        "temperature: Extra inputs are not permitted",
        headers=VERSION,
    ),
    case(
        "a temperature for a new model",
        "ANT-03",
        ask(model=NEW, temperature=0.5),
        "temperature is deprecated for this model",
    ),
    case(
        "a temperature while thinking",
        "ANT-03",
        ask(temperature=0.5, **thinks("enabled", budget_tokens=1024)),
        "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode",
    ),
    case(
        "a budget above the limit",
        "ANT-50",
        ask(**thinks("enabled", budget_tokens=4096)),
        model_features.BUDGET_TOO_BIG,
    ),
    case(
        "manual thinking on a new model",
        "ANT-50",
        ask(model=NEW, **thinks("enabled", budget_tokens=1024)),
        f'"thinking.type.enabled" is not supported for this model. {ADVICE}',
    ),
    case(
        "adaptive thinking on an old model",
        "ANT-50",
        ask(**thinks("adaptive")),
        "adaptive thinking is not supported on this model",
    ),
    case(
        "no thinking where it cannot be turned off",
        "ANT-50",
        ask(model=BINDING, **thinks("disabled")),
        f'"thinking.type.disabled" is not supported for this model. {ADVICE}',
    ),
    case(
        "no thinking on a model with manual thinking",
        "ANT-50",
        ask(model="claude-fable-5", **thinks("disabled")),
        '"thinking.type.disabled" is not supported for this model. Thinking defaults to adaptive mode when not'
        ' specified; use "thinking.type.enabled" with "budget_tokens" for extended thinking.',
    ),
    case(
        "a forced tool while thinking",
        "ANT-43",
        ask(tool_choice={"type": "any"}, **TOOLS, **thinks("enabled", budget_tokens=1024)),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    case(
        "a forced tool on a model that refuses force",
        "ANT-43",
        ask(model=BINDING, tool_choice={"type": "tool", "name": "get_weather"}, **TOOLS),
        'tool_choice: type "tool" and "any" are not supported for this model',
    ),
    case(
        "a system message on an old model",
        "ANT-16",
        ask(user(), system()),
        "role 'system' is not supported on this model",
    ),
    case(
        "a system message at the start",
        "ANT-16",
        ask(system(), assistant(), user(), model=BINDING),
        f"messages.0: use the top-level 'system' parameter for the initial system prompt{DIRECTIVE}",
    ),
    case(
        "a system message after the model",
        "ANT-16",
        ask(user(), assistant(), system(), assistant(), user(), model=BINDING),
        "messages.2: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool"
        f" result{DIRECTIVE}",
    ),
    case(
        "a system message before the user",
        "ANT-16",
        ask(user(), system(), user(), model=BINDING),
        f"messages.1: role 'system' must precede an 'assistant' message or end the array{DIRECTIVE}",
    ),
    case(
        "an empty system message",
        "ANT-16",
        ask(user(), {"role": "system", "content": []}, model=BINDING),
        "messages.1: system content must contain at least one block",
    ),
    case(
        "a picture in a system message",
        "ANT-16",
        ask(user(), system(image()), model=BINDING),
        "messages.1: role 'system' supports text, tool_addition, and tool_removal blocks only",
    ),
    case("a prefill on a new model", "ANT-15", ask(user(), assistant(), model=NEW), NO_PREFILL),
    case(
        "a prefill that ends in a space",
        "ANT-15",
        ask(user(), assistant(text("The answer is "))),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
]
