"""A tool turn with Strands, over Ollama's API, which it streams."""

from session import KEY, MODEL, PROMPT, URL, load, read_note, save
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models.ollama import OllamaModel

client = {"headers": {"authorization": f"Bearer {KEY}"}}
agent = Agent(
    model=OllamaModel(URL, model_id=MODEL, ollama_client_args=client),
    tools=[tool(read_note)],
    messages=load(),
    callback_handler=None,
)
agent.hooks.add_callback(BeforeToolCallEvent, lambda event: save(event.agent.messages))
reply = agent(PROMPT)
save(agent.messages)
print(reply)
