"""Turns with the Google Gen AI SDK: the whole history, with its beginning in a cache, and interactions."""

from google import genai
from google.genai import types
from turns import DESCRIPTION, DOCUMENT, KEY, SCHEMA, URL, Take, call, serve

client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=URL))
FUNCTION = types.FunctionDeclaration(name="read_note", description=DESCRIPTION, parameters_json_schema=SCHEMA)
BEGINNING = {"system_instruction": "Be brief.", "tools": [types.Tool(function_declarations=[FUNCTION])]}
FIRST = types.Content(role="user", parts=[types.Part(text=DOCUMENT)])
TOOL = {"type": "function", "name": "read_note", "description": DESCRIPTION, "parameters": SCHEMA}


def contents(model: str, keeps: str) -> Take:
    history: list = [] if keeps == "cache" else [FIRST]
    beginning = BEGINNING
    if keeps == "cache":
        kept = types.CreateCachedContentConfig(contents=[FIRST], ttl="600s", **BEGINNING)
        beginning = {"cached_content": client.caches.create(model=model, config=kept).name}
    config = types.GenerateContentConfig(
        **beginning,
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH"),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )

    def take(prompt: str, tokens: list[int]) -> str:
        history.append(types.Content(role="user", parts=[types.Part(text=prompt)]))
        while True:
            reply = client.models.generate_content(model=model, contents=history, config=config)
            tokens.append(reply.usage_metadata.prompt_token_count)
            history.append(reply.candidates[0].content)
            results = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=made.id, name=made.name, response={"output": call(made.args)}
                    )
                )
                for made in reply.function_calls or []
            ]
            if not results:
                return reply.text or ""
            history.append(types.Content(role="user", parts=results))

    return take


def interactions(model: str, keeps: str) -> Take:
    history: list = []
    held: dict = {}
    settings = {
        "model": model,
        "system_instruction": "Be brief.",
        "tools": [TOOL],
        "generation_config": {"thinking_level": "high", "thinking_summaries": "auto"},
    }

    def send(new: list):
        if keeps == "interactions":
            reply = client.interactions.create(input=new, **settings, **held)
            held["previous_interaction_id"] = reply.id
            return reply
        history.extend(new)
        reply = client.interactions.create(input=history, store=False, **settings)
        history.extend(step.model_dump(exclude_none=True) for step in reply.steps)
        return reply

    def take(prompt: str, tokens: list[int]) -> str:
        new: list = [{"type": "user_input", "content": [{"type": "text", "text": prompt}]}]
        while True:
            reply = send(new)
            tokens.append(reply.usage.total_input_tokens)
            new = [
                {
                    "type": "function_result",
                    "call_id": step.id,
                    "name": step.name,
                    "result": call(step.arguments),
                }
                for step in reply.steps
                if step.type == "function_call"
            ]
            if not new:
                said = [step for step in reply.steps if step.type == "model_output"]
                return "".join(part.text for step in said for part in step.content)

    return take


serve(lambda model, keeps: (interactions if "interactions" in keeps else contents)(model, keeps))
