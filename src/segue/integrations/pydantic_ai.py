"""A model for pydantic-ai: any model of any provider, with safe switching, in this process.

    agent = Agent(SegueModel("anthropic/claude-sonnet-4-6"))
    result = agent.run_sync("Hello!")
    agent.run_sync("And now?", model=SegueModel("openai/gpt-5.5"), message_history=result.all_messages())

Needs `pydantic-ai-slim[openai]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import merge_model_settings

from segue.integrations.in_process_clients import async_client

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings

    from segue.gateway import GatewayApplication

__all__ = ["SegueModel", "SegueProvider"]


class SegueProvider(OpenAIProvider):
    """The gateway as pydantic-ai knows providers: what it wrote, it gets back."""

    def __init__(self, app: GatewayApplication | None = None) -> None:
        """`app`: the gateway; without it, the one that all models of this process share."""
        super().__init__(openai_client=async_client(app))

    @property
    def name(self) -> str:
        return "segue"

    @staticmethod
    def model_profile(model_name: str) -> ModelProfile | None:
        """What every model can do here: the gateway describes tools and schemas to those that lack them."""
        del model_name
        # Without `openai_supports_reasoning`: with it, pydantic-ai drops the temperature of every request that may think. Which
        # models refuse one, the gateway knows.
        return OpenAIModelProfile(
            # Without it, answers of OpenAI's own models are not held to a schema, and a strict tool is refused by them.
            json_schema_transformer=OpenAIJsonSchemaTransformer,
            supports_tools=True,
            supports_json_schema_output=True,
            supports_json_object_output=True,
            supports_thinking=True,
            openai_supports_encrypted_reasoning_content=True,
            openai_system_prompt_role="system",
        )


class SegueModel(OpenAIResponsesModel):
    """`provider/model`, an alias or a profile of the gateway's settings, as a model of pydantic-ai."""

    def __init__(
        self,
        model_name: str,
        *,
        app: GatewayApplication | None = None,
        settings: ModelSettings | None = None,
    ) -> None:
        """`app`: the gateway; without it, the one that all models of this process share."""
        carried = OpenAIResponsesModelSettings(openai_store=False)
        super().__init__(
            model_name, provider=SegueProvider(app), settings=merge_model_settings(carried, settings)
        )
