"""The conversations of a gateway, for commands: in its memory on this machine, or over HTTP elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from segue.cli.clients import KEY_VARIABLE, gateway_url, key_needed
from segue.cli.command_table import read_settings
from segue.errors import TransportError, UsageError
from segue.gateway.memory.store import ConversationInfo
from segue.gateway.stores import open_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.config.schema import Config
    from segue.gateway.doors.control import ConversationDocument
    from segue.gateway.memory.store import GatewayStore

LAST = "last"
_SECONDS = 10.0


@contextmanager
def open_gateway_control(url: str, sets: Sequence[str]) -> Iterator[_Local | _Remote]:
    """Its memory is used directly where it is a file on this machine: also while no gateway runs."""
    config = read_settings(sets).config
    if url or config.gateway.memory.keep == "memory":
        yield _Remote(url or gateway_url(config))
        return
    with asyncio.Runner() as runner:
        store = open_memory(config).store
        try:
            yield _Local(config, store, runner)
        finally:
            runner.run(store.close())


def open_gateway(url: str) -> _Remote:
    """A running gateway: what it holds in memory is in no file."""
    return _Remote(url or gateway_url(read_settings([]).config))


class _Local:
    def __init__(self, config: Config, store: GatewayStore, runner: asyncio.Runner) -> None:
        self._config = config
        self._store = store
        self._run = runner.run

    def conversations(self, limit: int) -> Sequence[ConversationInfo]:
        return self._run(self._store.conversations(limit))

    def switch(self, conversation: str, model: str, *, session: bool = False) -> ConversationInfo:
        """`last` names the conversation used last; an empty model takes a switch back. `session`: with all others of its session."""
        from segue.config.resources import open_providers  # noqa: PLC0415 - a list needs none
        from segue.gateway.doors.control import checked_model, switch_session  # noqa: PLC0415

        model = checked_model(model, self._config, open_providers(self._config))
        found = _id_of(conversation, self)
        known: ConversationInfo | bool | None
        if session:
            known = self._run(self._store.conversation(found))
            if known is not None:
                self._run(switch_session(self._store, known, model))
        else:
            known = self._run(self._store.switch(found, model))
        if not known or (info := self._run(self._store.conversation(found))) is None:
            raise _unknown(conversation)
        return info


class _Remote:
    def __init__(self, url: str) -> None:
        from segue.gateway.doors.control import CONVERSATIONS  # noqa: PLC0415 - loads the wires; a list from a file needs none

        self._url, self._conversations = url.rstrip("/"), CONVERSATIONS

    def conversations(self, limit: int) -> Sequence[ConversationInfo]:
        answer = self._ask(f"{self._conversations}?limit={limit}")
        return msgspec.convert(answer["conversations"], list[ConversationInfo])

    def switch(self, conversation: str, model: str, *, session: bool = False) -> ConversationInfo:
        found = _id_of(conversation, self)
        wanted = {"model": model, **({"session": True} if session else {})}
        answer = self._ask(f"{self._conversations}/{quote(found, safe='')}/switch", wanted)
        return msgspec.convert(answer, ConversationInfo)

    def document(self, conversation: str) -> ConversationDocument:
        """The messages of a conversation; `last` names the one used last."""
        found = _id_of(conversation, self)
        answer = self._ask(f"{self._conversations}/{quote(found, safe='')}/document")
        from segue.gateway.doors.control import ConversationDocument  # noqa: PLC0415

        document = msgspec.Raw(msgspec.json.encode(answer["document"]))
        return msgspec.convert({**answer, "document": document}, ConversationDocument)

    def _ask(self, path: str, body: object = None) -> Any:
        headers = {"content-type": "application/json"}
        if key := os.environ.get(KEY_VARIABLE, ""):
            headers["authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self._url + path, data, headers)  # noqa: S310 - the user's own gateway
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error) from error
        except (OSError, ValueError) as error:
            raise TransportError(
                f"The gateway at {self._url} does not answer: {error}.",
                hint="Start it: segue serve. Or name another: --url",
            ) from error


def _refusal(error: urllib.error.HTTPError) -> UsageError:
    try:
        message = str(json.loads(error.read())["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = f"The gateway refused with status {error.code}."
    if error.code == 401:
        return key_needed(message)
    return UsageError(message, code="gateway_refused", hint="List the conversations: segue gateway ps")


def _id_of(conversation: str, control: _Local | _Remote) -> str:
    if conversation != LAST:
        return conversation
    if not (last := control.conversations(1)):
        raise _unknown(conversation)
    return last[0].id


def _unknown(conversation: str) -> UsageError:
    return UsageError(
        f'There is no conversation "{conversation}".',
        code="unknown_conversation",
        hint="List them: segue gateway ps",
    )
