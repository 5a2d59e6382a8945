"""A strict stand-in for api.moonshot.ai: chat completions, models and the token estimate.

It speaks OpenAI's Chat Completions with rules of its own: calls and results by adjacency, ids that are unique in the
whole request, reasoning that must come back, and tool schemas in a dialect called MFJS. Ids in the native form
``functions.name:n`` (KIM-01, KIM-03) matter to self-hosted weights only; the service takes any unique id. A result
that answers its call always has a resolvable name, so KIM-17 adds nothing to KIM-06 here.
"""
