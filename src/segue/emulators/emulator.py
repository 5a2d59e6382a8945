"""The state of a running emulator: who answers, what was issued, what was asked, what will go wrong next."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from segue.emulators.model.model_facts import facts_for
from segue.emulators.model.prompt_cache import PromptCache, size
from segue.emulators.model.responder import Responder, ScriptedResponder
from segue.emulators.rules import Context
from segue.emulators.signatures import SECRET, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segue.emulators.faults import Fault
    from segue.emulators.http import Request
    from segue.emulators.model.model_reply import Prompt, Reply


AWS_SECRETS: Final = {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
"""The one account that every emulator knows; AWS's documentation uses it."""


class Entry(Struct, frozen=True, kw_only=True):
    """One request and its verdict."""

    provider: str
    method: str
    path: str
    status: int
    verdict: str
    """`accepted`, `refused`, or `fault` when the answer was spoilt on demand."""
    rule: str | None = None
    message: str | None = None
    fault: str | None = None
    body: Any = None
    """The request's JSON; None when it had none."""


class Emulator:
    """The state of all emulators. Handlers get it with each request; tests use it to script answers and to inspect requests."""

    def __init__(
        self,
        *,
        strict: bool = False,
        extra_rules: Iterable[str] = (),
        responder: Responder | None = None,
        clock: Callable[[], float] = time.time,
        secret: bytes = SECRET,
        keys: Iterable[str] | None = None,
        unstreamed: Iterable[str] = (),
        log_size: int = 1000,
    ) -> None:
        self.strict = strict
        self.extra_rules = frozenset(extra_rules)
        self.responder = responder or ScriptedResponder()
        self.clock = clock
        self.secret = secret
        self.keys = None if keys is None else frozenset(keys)
        """The API keys that are accepted; None accepts any key."""
        self.secrets: dict[str, str] = {**AWS_SECRETS}
        """Access keys of AWS, and what requests are signed with in their name."""
        self.unstreamed = tuple(unstreamed)
        """Patterns of models that the account may not stream, with providers that have words for it."""
        self.withheld: frozenset[str] = frozenset()
        """Betas and fields of Anthropic's wire that the clouds do not have yet."""
        self.sends_whole = False
        """Set it, and replies come whole, also where a stream is asked for: as from servers that know none."""
        self.faults: deque[Fault] = deque()
        self.batch_faults: deque[Fault] = deque()
        """Each spoils one request of a batch instead of one answer."""
        self.batch_delay = 0.0
        """Seconds before the first request of a batch is answered."""
        self.batch_rate = inf
        """Requests of a batch that are answered in a second."""
        self.log: deque[Entry] = deque(maxlen=log_size)
        self.hung_up = 0
        """How many clients went away in the middle of an answer."""
        self.cache = PromptCache()
        self._memory: dict[str, dict[str, Any]] = {}
        self._issued = 0

    def memory(self, provider: str) -> dict[str, Any]:
        """What this provider's module keeps between requests."""
        return self._memory.setdefault(provider, {})

    def new_id(self, prefix: str = "", length: int = 24) -> str:
        """A fresh id: letters and digits, never the same twice, the same sequence in every run."""
        self._issued += 1
        return prefix + hashlib.sha256(f"{self._issued}".encode()).hexdigest()[:length]

    def context(
        self,
        request: Request,
        *,
        provider: str,
        model: str = "",
        segments: Sequence[object] = (),
    ) -> Context:
        """The circumstances of a request. `segments`: the prompt in order of its prefix, for cache accounting.

        Asking with segments does not yet remember them; `remember` does, once the request is accepted.
        """
        account = account_of(request)
        facts = facts_for(provider, model)
        if facts and any(fnmatchcase(model, pattern) for pattern in self.unstreamed):
            facts = {**facts, "streams": False}
        return Context(
            model=model,
            facts=facts,
            headers=request.headers,
            account=account,
            platform=_platform(request),
            strict=self.strict,
            sends_whole=self.sends_whole,
            extra_rules=self.extra_rules | (_CLOUD_RULES if request.mounted in _CLOUDS else frozenset()),
            secret=self.secret,
            memory=self.memory(provider),
            cached_tokens=self.cache.common((provider, account, model), segments, self.clock()),
            segment_tokens=size(segments),
            reply_id=self.new_id(),
            now=int(self.clock()),
        )

    def remember(self, provider: str, context: Context, segments: Sequence[object]) -> None:
        """Put an accepted prompt into the prompt cache of its account and model."""
        minimum = context.facts.get("cache_minimum", 0)
        self.cache.store((provider, context.account, context.model), segments, self.clock(), minimum)

    def reply(self, prompt: Prompt) -> Reply:
        return self.responder.reply(prompt)

    def reset(self, *, ids: bool = True) -> None:
        """Clear everything that requests and scripts have stored. `ids`: begin with the first id again, too; not for a client
        that remembers replies by their ids, since no provider gives an id twice."""
        self.faults.clear()
        self.batch_faults.clear()
        self.log.clear()
        self.hung_up = 0
        self.cache.clear()
        self._memory.clear()
        if ids:
            self._issued = 0
        self.responder.reset()


_CLOUDS = ("vertex", "azure")
_AWS = ("bedrock", "bedrock-mantle", "claude-aws")
_CLOUD_RULES = frozenset({"GEM-16"})
"""What is a rumour about some models of the Developer API is the rule at Vertex (VTX-02)."""


def _platform(request: Request) -> str:
    """Whose seals these are: a resource of Azure, known by its host, opens only its own (AZR-04)."""
    if request.mounted == "azure":
        return f"azure {request.headers.get('host', '')}"
    if request.mounted in _AWS:  # AWS-10: each of its wires
        return f"{request.mounted} {request.path.split('/')[1]}"
    return "vertex" if "/publishers/" in request.path else "api"


def key_of(request: Request) -> str:
    """The API key in whichever place the providers put it; "" when there is none."""
    headers = request.headers
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and bearer.strip():
        return bearer.strip()
    for name in ("x-api-key", "x-goog-api-key", "api-key"):
        if headers.get(name):
            return headers[name]
    return request.query.get("key", "")


def account_of(request: Request) -> str:
    key = key_of(request)
    return digest(key)[:12] if key else "default"
