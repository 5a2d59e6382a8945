"""Strict emulators of the provider APIs: they refuse what the real ones refuse, in the same words.

They are written from the providers' published behaviour alone and import nothing of segue but the lazy
loading of these names, so that they are a second opinion on everything segue sends, and usable for testing any other client.

Every provider is a folder of the same shape:

- `checks`: `complaints(body, context)` yields every broken rule in the provider's order; each rule is one function
  under `@rule("CHAT-10", "H")` (rules.py).
- `replies`: `whole(reply, request, context)` and `stream(reply, request, context)` put a responder's reply on the wire.
- `errors`: `envelope(refusal, context)` is the error body, `headers(refusal, context)` stand beside it and beside every
  answer; `fault(fault, context)`, `wrong_key(key)` and `not_json(body, problem)` are the provider's words for trouble that
  no rule is about. Optional: `stream_error(refusal, context)`, the bytes of an error inside a stream that has begun.
- `routes`: `ROUTES`, a list of `(method, path pattern, handler)`; a handler takes (`http.Request`,
  `emulator.Emulator`) and returns an `http.Response`, or raises `rules.RefusedError`.
"""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.emulators.app": "App",
    "segue.emulators.emulator": "Emulator",
    "segue.emulators.faults": "Fault",
    "segue.emulators.in_process": "ask ask_now",
    "segue.emulators.model.model_reply": "Call Prompt Reply Say Think",
    "segue.emulators.model.responder": "Responder ScriptedResponder",
    "segue.emulators.server": "Served serve",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
