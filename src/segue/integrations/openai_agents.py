"""Models for the OpenAI Agents SDK: any model of any provider, with safe switching, in this process.

    agent = Agent(name="Guide", model="anthropic/claude-sonnet-4-6")
    await Runner.run(agent, "Hello!", run_config=RunConfig(model_provider=SegueModelProvider()))

Needs `openai-agents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents import Model, ModelProvider, ModelSettings, OpenAIResponsesModel, UserError

from segue.integrations.in_process_clients import SEALED_THOUGHTS, async_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents.items import ModelResponse, TResponseStreamEvent

    from segue.gateway import GatewayApplication

__all__ = ["SegueModelProvider"]


class SegueModelProvider(ModelProvider):
    """Every name that the gateway knows: `provider/model`, an alias or a profile of its settings."""

    def __init__(self, app: GatewayApplication | None = None, *, default: str = "") -> None:
        """`app`: the gateway; without it, the one that all models of this process share. `default`: the model of agents that name
        none."""
        self._client = async_client(app)
        self._default = default

    def get_model(self, model_name: str | None) -> Model:
        name = model_name or self._default
        if not name:
            raise UserError("The agent names no model, and SegueModelProvider has no default.")
        return _CarryingModel(name, self._client)


class _CarryingModel(OpenAIResponsesModel):
    """Has thoughts sent sealed, so that the history carries them and nobody has to keep it."""

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the framework's name
        model_settings: Any,
        *rest: Any,
        **more: Any,
    ) -> ModelResponse:
        return await super().get_response(system_instructions, input, _carried(model_settings), *rest, **more)

    def stream_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the framework's name
        model_settings: Any,
        *rest: Any,
        **more: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        return super().stream_response(system_instructions, input, _carried(model_settings), *rest, **more)


def _carried(settings: ModelSettings) -> ModelSettings:
    if settings.store:
        return settings
    included = dict.fromkeys([*(settings.response_include or ()), SEALED_THOUGHTS])
    return settings.resolve(ModelSettings(store=False, response_include=list(included)))
