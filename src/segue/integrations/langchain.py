"""A chat model for LangChain and LangGraph: any model of any provider, with safe switching, in this process.

    model = ChatSegue(model="anthropic/claude-sonnet-4-6")
    model.invoke("Hello!")

Needs `langchain-openai`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.output_parsers import JsonOutputParser
from langchain_core.runnables import RunnableLambda
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import BaseModel, Field, model_validator

from segue.chat.output_type import output_type
from segue.dialects.schemas.strict import strict_schema
from segue.gateway import GatewayApplication, in_process_transport
from segue.integrations.in_process_clients import NO_KEY, SEALED_THOUGHTS, STRICT_HEADERS, shared_app

if TYPE_CHECKING:
    from langchain_core.language_models import LangSmithParams
    from langchain_core.runnables import Runnable

__all__ = ["ChatSegue"]


class ChatSegue(ChatOpenAI):
    """`provider/model`, an alias or a profile of the gateway's settings, as a chat model of LangChain."""

    app: Any = Field(default=None, exclude=True, repr=False)
    """The gateway; without it, the one that all models of this process share."""

    @model_validator(mode="before")
    @classmethod
    def _point_at_the_gateway(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        app = given.get("app")
        if app is not None and not isinstance(app, GatewayApplication):
            raise ValueError("app must be a GatewayApplication, as segue.gateway.gateway_app() makes it.")
        transport = in_process_transport(app or shared_app())
        return {
            "store": False,
            "include": [SEALED_THOUGHTS],
            "output_version": "responses/v1",
            "default_headers": STRICT_HEADERS,
            **given,
            "api_key": NO_KEY,
            "use_responses_api": True,
            "http_socket_options": (),
            "http_client": DefaultHttpxClient(transport=transport),
            "http_async_client": DefaultAsyncHttpxClient(transport=transport),
        }

    def with_structured_output(
        self, schema: Any = None, *, method: Any = "json_schema", include_raw: bool = False, **more: Any
    ) -> Runnable[Any, Any]:
        """As LangChain's own. A class of pydantic is sent as its schema, strictly where that can be, and checked here: LangChain would
        look for it in a part of streams that only OpenAI writes. With `include_raw` it is a tool that the model must call."""
        if method != "json_schema" or not (isinstance(schema, type) and issubclass(schema, BaseModel)):
            return super().with_structured_output(schema, method=method, include_raw=include_raw, **more)
        if include_raw:
            return super().with_structured_output(schema, method="function_calling", include_raw=True, **more)
        answer = output_type(schema)
        written, _ = strict_schema(answer.schema)
        strict = more.pop("strict", None) is not False and written is not None
        wanted = {"name": schema.__name__, "schema": written if strict else answer.schema, "strict": strict}
        traced = {"kwargs": {"method": method, "strict": strict}, "schema": convert_to_json_schema(schema)}
        asked = self.bind(
            response_format={"type": "json_schema", "json_schema": wanted},
            ls_structured_output_format=traced,
            **more,
        )

        def read(value: dict[str, Any]) -> BaseModel:
            (held,) = value.values() if answer.wrapped else (value,)
            return schema.model_validate(held)

        return asked | JsonOutputParser() | RunnableLambda(read)

    @property
    def _llm_type(self) -> str:
        return "segue"

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        return ["segue", "integrations", "langchain"]

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """A gateway of this process cannot be written down."""
        return False

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = "segue"
        return params
