"""A tool turn with the Google Gen AI SDK for Vertex AI, with thoughts: streamed, then whole behind the results."""

from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = genai.Client(
    vertexai=True,
    project="p",
    location="global",
    credentials=Credentials(token=KEY),
    http_options=types.HttpOptions(base_url=URL),
)
FUNCTION = types.FunctionDeclaration(name="read_note", description=DESCRIPTION, parameters_json_schema=SCHEMA)
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[FUNCTION])],
    thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH"),
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


def parts_of(contents: list) -> list:
    if any(part.function_response for part in contents[-1].parts):
        reply = client.models.generate_content(model=MODEL, contents=contents, config=CONFIG)
        return reply.candidates[0].content.parts
    chunks = client.models.generate_content_stream(model=MODEL, contents=contents, config=CONFIG)
    held = [chunk.candidates[0].content for chunk in chunks if chunk.candidates]
    parts = [part for content in held if content for part in content.parts or ()]
    return [part for part in parts if part.text or part.function_call]  # Vertex refuses empty texts


def ask(history: list) -> str:
    parts = parts_of([types.Content.model_validate(one) for one in history])
    history.append(types.Content(role="model", parts=parts).model_dump(mode="json", exclude_none=True))
    calls = [part.function_call for part in parts if part.function_call]
    if not calls:
        return "".join(part.text or "" for part in parts if not part.thought) or "(empty)"
    save(history)
    results = [
        types.Part.from_function_response(name=call.name, response={"output": read_note(**call.args)})
        for call in calls
    ]
    history.append(types.Content(role="user", parts=results).model_dump(mode="json", exclude_none=True))
    return ""


run(ask, [*load(), {"role": "user", "parts": [{"text": PROMPT}]}])
