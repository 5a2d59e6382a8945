"""Ask a provider's checks for their verdict, and say what it must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Context, Refusal, first_enforced

Complaints = Callable[[object, Context], Iterator[Refusal]]


class Judge:
    """The checks of one provider, applied to request bodies."""

    def __init__(self, complaints: Complaints, provider: str, model: str) -> None:
        self._complaints, self._provider, self._model = complaints, provider, model

    def context(self, body: object, *, strict: bool = False) -> Context:
        model = body.get("model", self._model) if isinstance(body, dict) else self._model
        name = model if isinstance(model, str) else ""
        return Context(model=name, facts=facts_for(self._provider, name), strict=strict)

    def accepts(self, body: object, *, strict: bool = True) -> None:
        context = self.context(body, strict=strict)
        assert first_enforced(self._complaints(body, context), context) is None

    def refuses(
        self,
        body: object,
        rule: str,
        message: str,
        *,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        strict: bool = False,
    ) -> None:
        """The body breaks this rule and no other, and is answered in these words."""
        context = self.context(body, strict=strict)
        found = list(self._complaints(body, context))
        assert {refusal.rule for refusal in found} == {rule}, found
        refusal = first_enforced(found, context)
        assert refusal is not None, found
        assert (refusal.message, refusal.status, refusal.code) == (message, status, code)
        assert refusal.type == "invalid_request_error"
        if param is not None:
            assert refusal.param == param
        if strict:
            lenient = Context(model=context.model, facts=context.facts)
            assert first_enforced(self._complaints(body, lenient), lenient) is None
