"""A tool turn with the Anthropic SDK's client for Claude Platform on AWS: signed requests for one workspace."""

from anthropic import AnthropicAWS
from claude_turn import take_turn
from session import KEY, URL

client = AnthropicAWS(
    base_url=URL, aws_access_key=KEY, aws_secret_key=KEY, aws_region="us-east-1", workspace_id="wrkspc_01"
)
take_turn(client, {"type": "enabled", "budget_tokens": 2000})
