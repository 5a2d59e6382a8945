"""A tool turn with the Anthropic SDK's client for Bedrock's mantle: signed requests, Messages."""

from anthropic import AnthropicBedrockMantle
from claude_turn import take_turn
from session import KEY, URL

client = AnthropicBedrockMantle(
    base_url=f"{URL}/anthropic", aws_access_key=KEY, aws_secret_key=KEY, aws_region="us-east-1"
)
take_turn(client, {"type": "adaptive"})
