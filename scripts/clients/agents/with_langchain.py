"""A tool turn with LangChain, over Chat Completions."""

from langchain_core.messages import HumanMessage, ToolMessage, messages_from_dict, messages_to_dict
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from session import KEY, MODEL, PROMPT, URL, load, read_note, run, save

read = tool(read_note)
model = ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key=KEY).bind_tools([read])


def ask(history: list) -> str:
    reply = model.invoke(messages_from_dict(history))
    history += messages_to_dict([reply])
    if not reply.tool_calls:
        return reply.text if isinstance(reply.text, str) else reply.text()
    save(history)
    results = [ToolMessage(read.invoke(call["args"]), tool_call_id=call["id"]) for call in reply.tool_calls]
    history += messages_to_dict(results)
    return ""


run(ask, [*load(), *messages_to_dict([HumanMessage(PROMPT)])])
