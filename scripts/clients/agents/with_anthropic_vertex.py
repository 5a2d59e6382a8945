"""A tool turn with the Anthropic SDK's client for Vertex AI: another envelope, the model in the path."""

from anthropic import AnthropicVertex
from claude_turn import take_turn
from session import KEY, URL

client = AnthropicVertex(base_url=f"{URL}/v1", access_token=KEY, project_id="p", region="global")
take_turn(client, {"type": "enabled", "budget_tokens": 2000})
