"""Requests whose tools, messages, calls or thinking break a rule."""

from __future__ import annotations

from emulators.anthropic.breaking import (
    ADVICE,
    NOT_2020,
    PATTERN,
    UNANSWERED,
    VERSION,
    WIDE,
    answered,
    case,
    thinks,
    tool,
)
from emulators.anthropic.requests import (
    SCHEMA,
    TOOL,
    TOOLS,
    ask,
    assistant,
    call,
    image,
    result,
    text,
    user,
)
from segue.emulators.anthropic import thinking

DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}

CONVERSATION_CASES = [
    # --- tools
    case(
        "a tool name with a dot",
        "ANT-40",
        ask(**tool(name="get.weather")),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    case(
        "a tool without a schema",
        "ANT-41",
        ask(tools=[{"name": "get_weather"}]),
        "tools.0.custom.input_schema: Field required",
    ),
    case(
        "a combinator at the top of a schema",
        "ANT-41",
        ask(**tool(input_schema={"type": "object", "anyOf": [SCHEMA]})),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ),
    case(
        "a schema of an old draft",
        "ANT-41",
        ask(**tool(input_schema={"type": "object", "properties": {"a": {"items": [{"type": "string"}]}}})),
        NOT_2020,
    ),
    case("two tools of one name", "ANT-42", ask(tools=[TOOL, TOOL]), "tools: Tool names must be unique."),
    # --- emptiness
    case("no messages", "ANT-11", {**ask(), "messages": []}, "messages: at least one message is required"),
    case(
        "an empty text block",
        "ANT-12",
        ask(user(text(""), text("hi"))),
        "messages: text content blocks must be non-empty",
    ),
    case(
        "an empty text block in a result",
        "ANT-12",
        answered(results=[result(content=[text("")])]),
        "messages: text content blocks must be non-empty",
    ),
    case(
        "a message of blanks",
        "ANT-13",
        ask(user(text(" "))),
        "messages: text content blocks must contain non-whitespace text",
    ),
    case(
        "an empty message",
        "ANT-14",
        ask(user(), {"role": "assistant", "content": []}, user()),
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
    ),
    case(
        "an empty system block",
        "ANT-17",
        ask(system=[text("")]),
        "system: text content blocks must be non-empty",
    ),
    # --- calls and results
    case("an unanswered call", "ANT-20", ask(user(), assistant(call()), user(), **TOOLS), UNANSWERED),
    case("a call at the very end", "ANT-20", ask(user(), assistant(call()), **TOOLS), UNANSWERED),
    case("text before the results", "ANT-20", answered(results=[text(), result()]), UNANSWERED),
    case(
        "a result without a call",
        "ANT-22",
        ask(user(), assistant(), user(result()), **TOOLS),
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_a. Each `tool_result`"
        " block must have a corresponding `tool_use` block in the previous message.",
    ),
    case(
        "two results for one call",
        "ANT-23",
        answered(results=[result(), result()]),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id:"
        " toolu_a",
    ),
    case(
        "an id used twice in a message",
        "ANT-24",
        ask(user(), assistant(call(), call()), user(result()), **TOOLS),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    case(
        "an id with a colon",
        "ANT-25",
        answered(call("functions.get:0"), results=[result("functions.get:0")]),
        f"messages.1.content.0.tool_use.id: {PATTERN}",
    ),
    case(
        "arguments that are a string",
        "ANT-26",
        answered(call(input='{"city": "Paris"}')),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    case("text behind a call", "ANT-27", answered(call(), text()), UNANSWERED),
    case(
        "a server tool without its result",
        "ANT-30",
        ask(
            user(),
            assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
            user(),
        ),
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding"
        " `web_search_tool_result` block",
    ),
    case(
        "a server tool's result without its use",
        "ANT-30",
        ask(
            user(),
            assistant({"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, text()),
            user(),
        ),
        "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1. Each"
        " `advisor_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    # --- thinking
    case(
        "a tool loop that does not start with thinking",
        "ANT-52",
        answered(**thinks("enabled", budget_tokens=1024)),
        f"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
        f" {thinking.MUST_START}",
    ),
    case(
        "a foreign signature",
        "ANT-55",
        ask(
            user(), assistant({"type": "thinking", "thinking": "hm", "signature": "gAAAAAB"}, text()), user()
        ),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    case(
        "no signature at all",
        "ANT-55",
        ask(user(), assistant({"type": "thinking", "thinking": "hm"}, text()), user()),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    case(
        "thinking without its text",
        "ANT-51",
        ask(user(), assistant({"type": "redacted_thinking"}, text()), user()),
        "messages.1.content.0.redacted_thinking.data: Field required",
    ),
    # --- limits
    case(
        "a picture of an unknown kind",
        "ANT-65",
        ask(user(image(media_type="image/tiff"))),
        "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png',"
        " 'image/gif' or 'image/webp'",
    ),
    case(
        "an empty picture",
        "ANT-65",
        ask(user(image(data=""))),
        "messages.0.content.0.image.source.base64: image cannot be empty",
    ),
    case(
        "a wide picture among many",
        "ANT-65",
        ask(user(*[image()] * 20, image(data=WIDE))),
        "messages.0.content.20.image.source.base64.data: At least one of the image dimensions exceed max allowed size"
        " for many-image requests: 2000 pixels",
    ),
    case(
        "too long a prompt",
        "ANT-80",
        ask(user(text("word " * 170_000))),
        "prompt is too long: 212509 tokens > 200000 maximum",
    ),
    case(
        "no room for the reply on an old model",
        "ANT-80",
        {**ask(user(text("word " * 120_000)), model="claude-sonnet-4-0"), "max_tokens": 64_000},
        "input length and `max_tokens` exceed context limit: 150009 + 64000 > 200000, decrease input length or"
        " `max_tokens` and try again",
    ),
    case(
        "a fifth cache mark",
        "ANT-85",
        ask(user(*[text(cache_control={"type": "ephemeral"})] * 5)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    case(
        "warming the cache while streaming",
        "ANT-87",
        {**ask(stream=True), "max_tokens": 0},
        "max_tokens: Input should be greater than or equal to 1",
    ),
    case(
        "a long-lived mark after a short-lived one",
        "ANT-85",
        ask(
            user(text(cache_control={"type": "ephemeral", "ttl": "1h"})),
            system=[text(cache_control={"type": "ephemeral"})],
        ),
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are"
        " processed in the following order: `tools`, `system`, `messages`.",
    ),
    case(
        "more pictures than a small window takes",
        "ANT-65",
        ask(user(*[image()] * 101)),
        "Too much media: 0 document pages + 101 images > 100",
    ),
    case(
        "a document in an assistant message of the new version",
        "ANT-03",
        ask(user(), assistant(DOCUMENT, text()), user()),
        "messages.1.content.0: `document` blocks are not permitted in `assistant` messages",
        headers=VERSION,
    ),
    case(
        "citations in a user message of the new version",
        "ANT-03",
        ask(user(text(citations=[{"type": "char_location"}]))),
        "messages.0.content.0.text.citations: Extra inputs are not permitted",
        headers=VERSION,
    ),
    case(
        "only deferred tools",
        "ANT-42",
        ask(**tool(defer_loading=True)),
        "At least one tool must have defer_loading=false.",
    ),
    case(
        "a strict tool with an open schema",
        "ANT-42",
        ask(**tool(strict=True)),
        "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
    ),
    case(
        "an example that the schema refuses",
        "ANT-42",
        ask(**tool(input_examples=[{"city": "Rome"}, {"city": 5}])),
        "tools.0.custom.input_examples.1: Input does not match the tool's input_schema",
    ),
    case(
        "a forced choice without tools",
        "ANT-43",
        ask(tool_choice={"type": "any"}),
        "tool_choice may only be specified while providing tools.",
    ),
    case(
        "no thinking at the highest effort",
        "ANT-50",
        ask(model="claude-opus-5", output_config={"effort": "max"}, **thinks("disabled")),
        f'"thinking.type.disabled" is not supported for this model. {ADVICE}',
    ),
]


STRICT_CASES = [
    case(
        "an error without words",
        "ANT-28",
        answered(results=[result(content="", is_error=True)]),
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
    ),
    case(
        "an error with a picture",
        "ANT-28",
        answered(results=[result(content=[image()], is_error=True)]),
        "messages.2.content.0.tool_result: all content must be type `text` if `is_error` is true",
    ),
    case(
        "a property key with a space",
        "ANT-41",
        ask(**tool(input_schema={"type": "object", "properties": {"a b": {}}})),
        "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
    ),
    case(
        "a schema without a type",
        "ANT-41",
        ask(**tool(input_schema={"properties": {}})),
        "tools.0.custom.input_schema.type: Field required",
    ),
    case(
        "a thinking block at the end of a message",
        "ANT-56",
        ask(user(), assistant({"type": "thinking", "thinking": "hm", "signature": "x"}), user()),
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    ),
    case(
        "thinking in a prefill without thinking",
        "ANT-53",
        ask(user(), assistant({"type": "thinking", "thinking": "hm", "signature": "x"}, text())),
        "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
        " To use thinking blocks, enable `thinking` in your request.",
    ),
]
