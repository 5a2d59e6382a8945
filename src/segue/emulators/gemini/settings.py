"""What one model can do and another cannot, and how much it reads: GEM-26, GEM-27, GEM-40, GEM-43, GEM-58."""

from __future__ import annotations

from segue.emulators.gemini import prompt, typed_contents
from segue.emulators.gemini.typed_contents import Body, refused
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Complaints, Context, Refusal, rule

STOPS_MAX = 5


def complaints(body: Body, context: Context) -> Complaints:
    yield from penalties(body, context)
    yield from temperature(body, context)
    yield from stop_sequences(body, context)
    yield from thinking_level(body, context)
    yield from system_instruction(body, context)


@rule("GEM-45")
def unknown_model(context: Context, method: str) -> Complaints:
    """A model that does not exist, or not for this: an embedding model does not generate, and the reverse."""
    embeds = method in ("embedContent", "batchEmbedContents")
    if context.facts and bool(context.facts.get("embedding")) == embeds:
        return
    if context.facts and method == "countTokens":
        return
    if context.platform == "vertex":
        place = f"projects/emulated/locations/global/publishers/google/models/{context.model}"
        yield Refusal("GEM-45", f"Publisher Model `{place}` not found.", status=404, type="NOT_FOUND")
        return
    purpose = "embedContent" if embeds else method.replace("streamG", "g")
    text = (
        f"models/{context.model} is not found for API version v1beta, or is not supported for {purpose}."
        " Call ListModels to see the list of available models and their supported methods."
    )
    yield Refusal("GEM-45", text, status=404, type="NOT_FOUND")


@rule("GEM-27")
def penalties(body: Body, context: Context) -> Complaints:
    given = typed_contents.settings_of(body)
    if context.facts.get("penalties") is False and (
        "presence_penalty" in given or "frequency_penalty" in given
    ):
        yield refused("GEM-27", f"Penalty is not enabled for models/{context.model}")


@rule("GEM-27")
def temperature(body: Body, context: Context) -> Complaints:
    """Newer models ignore it, but a value out of range is refused by all; the words of Vertex are recorded."""
    value = typed_contents.settings_of(body).get("temperature", 0)
    if isinstance(value, str) or 0 <= value <= 2:
        return
    if context.platform == "vertex":
        text = (
            f"Unable to submit request because it has a temperature value of {value:g} but the supported range is"
            " from 0 (inclusive) to 2.0001 (exclusive). Update the value and try again."
        )
        yield refused("GEM-27", text)
    else:
        where = "* GenerateContentRequest.generation_config.temperature"
        yield refused("GEM-27", f"{where}: temperature must be in the range [0.0, 2.0].", "M")


@rule("GEM-58")
def stop_sequences(body: Body, context: Context) -> Complaints:
    """https://github.com/continuedev/continue/issues/7849 has the words of Vertex, issues/2702 those of the other API."""
    listed = typed_contents.settings_of(body).get("stop_sequences") or []
    if len(listed) <= STOPS_MAX:
        return
    if context.platform == "vertex":
        text = (
            f"Unable to submit request because it has a stopSequences value of {len(listed)} but the supported range is"
            f" from 1 (inclusive) to {STOPS_MAX + 1} (exclusive). Update the value and try again."
        )
        yield refused("GEM-58", text)
    else:
        yield refused("GEM-58", f"The number of stop_sequences must not exceed {STOPS_MAX}.")


@rule("GEM-26")
def thinking_level(body: Body, context: Context) -> Complaints:
    level = typed_contents.settings_of(body).get("thinking_config", {}).get("thinking_level")
    levels = context.facts.get("thinking_levels", ())
    if level is None:
        return
    if not levels:
        yield refused("GEM-26", "Thinking level is not supported for this model.", "M")
    elif level.isalpha() and level.lower() not in levels:
        text = f"'{level.lower()}' is not a supported thinking level for this model."
        yield refused("GEM-26", f"{text} Allowed values are: {', '.join(levels)}.")


@rule("GEM-40")
def system_instruction(body: Body, context: Context) -> Complaints:
    if "system_instruction" in body and context.facts.get("system_instruction") is False:
        yield refused("GEM-40", f"Developer instruction is not enabled for models/{context.model}")


@rule("GEM-43")
def too_long(body: Body, context: Context) -> Complaints:
    used, most = size(prompt.segments(body)), context.facts.get("context")
    if isinstance(most, int) and used > most:
        text = f"The input token count ({used}) exceeds the maximum number of tokens allowed ({most})."
        yield refused("GEM-43", text)
