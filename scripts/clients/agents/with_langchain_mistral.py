"""A tool turn with LangChain's Mistral client, streamed."""

from langchain_core.messages import (
    HumanMessage,
    ToolMessage,
    message_chunk_to_message,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.tools import tool
from langchain_mistralai import ChatMistralAI
from session import KEY, MODEL, PROMPT, URL, load, read_note, run, save

# Its first request looks like one of OpenAI's, so at a gateway it has to name the API.
address = URL if URL.endswith("/mistral") else f"{URL}/mistral"
read = tool(read_note)
model = ChatMistralAI(model=MODEL, endpoint=f"{address}/v1", api_key=KEY, max_retries=1).bind_tools([read])


def ask(history: list) -> str:
    first, *more = model.stream(messages_from_dict(history))
    reply = message_chunk_to_message(sum(more, first))
    if reply.response_metadata.get("finish_reason") == "error":
        return "error: the reply broke off"
    history += messages_to_dict([reply])
    if not reply.tool_calls:
        return reply.text if isinstance(reply.text, str) else reply.text()
    save(history)
    results = [ToolMessage(read.invoke(call["args"]), tool_call_id=call["id"]) for call in reply.tool_calls]
    history += messages_to_dict(results)
    return ""


run(ask, [*load(), *messages_to_dict([HumanMessage(PROMPT)])])
