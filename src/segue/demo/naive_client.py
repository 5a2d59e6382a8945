"""The same history without segue: encoded for each wire format as its schema says, without repairs.

Ids stay as they were issued, unanswered calls stay unanswered, reasoning and signatures go to every model. This is
what a program sends that keeps a list of messages and changes the base URL.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, assert_never

from msgspec import structs

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.demo.story import Shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from segue.conversation.blocks import Block
    from segue.conversation.interaction import Interaction
    from segue.conversation.message import Conversation, Message
    from segue.demo.story import Wire

Fields = dict[str, Any]
_TOOLS: Final = Shop().specs


def body(conversation: Conversation, ledger: Mapping[str, Interaction], wire: Wire) -> bytes:
    """The request body for a wire format."""
    conversation = structs.replace(conversation, messages=tuple(_unanswered(conversation)))
    ids = {call_id: interaction.call.native_id for call_id, interaction in ledger.items()}
    fields = _ENCODERS[wire.dialect](conversation, ids)
    if wire.dialect != "gemini":
        fields["model"] = wire.model
    return json.dumps(fields).encode()


def _unanswered(conversation: Conversation) -> Iterator[Message]:
    """The messages without synthetic results: only segue records that a call was interrupted."""
    for message in conversation.messages:
        kept = (block for block in message.blocks if type(block) is not ToolResult or block.reason is None)
        yield structs.replace(message, blocks=tuple(kept))


def _of(message: Message, kind: type[Block]) -> list[Any]:
    return [block for block in message.blocks if type(block) is kind]


def _output_text(result: ToolResult) -> str:
    return json.dumps(result.output) if result.error is None else result.error


def _functions(schema: str = "parameters") -> list[Fields]:
    """The tools, with their JSON Schema under the name that the wire has for it."""
    return [{"name": tool.name, "description": tool.description, schema: tool.parameters} for tool in _TOOLS]


# The wires that look like OpenAI Chat


def _chat(conversation: Conversation, ids: Mapping[str, str]) -> Fields:
    messages: list[Fields] = [{"role": "system", "content": conversation.system}]
    for message in conversation.messages:
        messages += _chat_messages(message, ids)
    return {
        "messages": messages,
        "tools": [{"type": "function", "function": function} for function in _functions()],
    }


def _chat_messages(message: Message, ids: Mapping[str, str]) -> Iterator[Fields]:
    if message.speaker == "tool":
        for result in _of(message, ToolResult):
            yield {"role": "tool", "tool_call_id": ids[result.call_id], "content": _output_text(result)}
    elif message.speaker == "user":
        content: list[Fields] = [{"type": "text", "text": message.text}]
        for media in _of(message, Media):
            address = f"data:{media.mime};base64,{media.data}"
            content.append({"type": "image_url", "image_url": {"url": address}})
        yield {"role": "user", "content": content if len(content) > 1 else message.text}
    else:
        yield _chat_reply(message)


def _chat_reply(message: Message) -> Fields:
    reply: Fields = {"role": "assistant", "content": message.text}
    if thoughts := "".join(thought.text for thought in _of(message, Reasoning)):
        reply["reasoning_content"] = thoughts
    if message.calls:
        reply["tool_calls"] = [
            {
                "id": call.native_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.calls
        ]
    return reply


def _ollama(conversation: Conversation, ids: Mapping[str, str]) -> Fields:
    fields = _chat(conversation, ids)
    for message in fields["messages"]:
        if "reasoning_content" in message:
            message["thinking"] = message.pop("reasoning_content")
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if isinstance(message["content"], list):
            text, *images = message["content"]
            message["content"] = text["text"]
            message["images"] = [image["image_url"]["url"].partition(",")[2] for image in images]
    return {**fields, "stream": False}


# The wires with a language of their own


def _anthropic(conversation: Conversation, ids: Mapping[str, str]) -> Fields:
    messages = [
        {
            "role": "assistant" if message.speaker == "model" else "user",
            "content": [_anthropic_block(block, ids) for block in message.blocks],
        }
        for message in conversation.messages
    ]
    tools = _functions("input_schema")
    return {"system": conversation.system, "messages": messages, "tools": tools, "max_tokens": 4096}


def _anthropic_block(block: Block, ids: Mapping[str, str]) -> Fields:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text, seal):
            return {"type": "thinking", "thinking": text, "signature": seal.payload if seal else ""}
        case ToolCall():
            return {"type": "tool_use", "id": block.native_id, "name": block.name, "input": block.arguments}
        case ToolResult():
            return {"type": "tool_result", "tool_use_id": ids[block.call_id], "content": _output_text(block)}
        case Media():
            source = {"type": "base64", "media_type": block.mime, "data": block.data}
            return {"type": "image", "source": source}
        case Code():
            return {"type": "text", "text": block.code}
        case _:
            assert_never(block)


def _gemini(conversation: Conversation, _: Mapping[str, str]) -> Fields:
    contents = [
        {
            "role": "model" if message.speaker == "model" else "user",
            "parts": [_gemini_part(block) for block in message.blocks],
        }
        for message in conversation.messages
    ]
    return {
        "systemInstruction": {"parts": [{"text": conversation.system}]},
        "contents": contents,
        "tools": [{"functionDeclarations": _functions("parametersJsonSchema")}],
    }


def _gemini_part(block: Block) -> Fields:
    match block:
        case Text(text):
            return {"text": text}
        case Reasoning(text, seal):
            return {"text": text, "thought": True} | ({"thoughtSignature": seal.payload} if seal else {})
        case ToolCall():
            return {"functionCall": {"name": block.name, "args": block.arguments}}
        case ToolResult():
            return {"functionResponse": {"name": block.name, "response": {"result": block.output}}}
        case Media():
            return {"inlineData": {"mimeType": block.mime, "data": block.data}}
        case Code():
            return {"text": block.code}
        case _:
            assert_never(block)


def _responses(conversation: Conversation, ids: Mapping[str, str]) -> Fields:
    items = [item for message in conversation.messages for item in _items(message, ids)]
    tools = [{"type": "function", **function, "strict": False} for function in _functions()]
    return {"instructions": conversation.system, "input": items, "tools": tools, "store": False}


def _items(message: Message, ids: Mapping[str, str]) -> Iterator[Fields]:
    role, kind = ("assistant", "output_text") if message.speaker == "model" else ("user", "input_text")
    for block in message.blocks:
        match block:
            case Text(text) | Code(text):
                yield {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
            case Reasoning(text, seal):
                summary = [{"type": "summary_text", "text": text}] if text else []
                sealed = {"encrypted_content": seal.payload} if seal else {}
                yield {"type": "reasoning", "summary": summary, **sealed}
            case ToolCall():
                arguments = json.dumps(block.arguments)
                yield {
                    "type": "function_call",
                    "call_id": block.native_id,
                    "name": block.name,
                    "arguments": arguments,
                }
            case ToolResult():
                call_id = ids[block.call_id]
                yield {"type": "function_call_output", "call_id": call_id, "output": _output_text(block)}
            case Media():
                image = {"type": "input_image", "image_url": f"data:{block.mime};base64,{block.data}"}
                yield {"type": "message", "role": role, "content": [image]}
            case _:
                assert_never(block)


_ENCODERS: Final[Mapping[str, Callable[[Conversation, Mapping[str, str]], Fields]]] = {
    "openai_chat": _chat,
    "mistral": _chat,
    "kimi": _chat,
    "ollama": _ollama,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "openai_responses": _responses,
}
