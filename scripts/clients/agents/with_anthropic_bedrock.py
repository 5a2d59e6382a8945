"""A tool turn with the Anthropic SDK's client for Bedrock: signed requests, InvokeModel, binary frames."""

from anthropic import AnthropicBedrock
from claude_turn import take_turn
from session import KEY, URL

client = AnthropicBedrock(base_url=URL, aws_access_key=KEY, aws_secret_key=KEY, aws_region="us-east-1")
take_turn(client, {"type": "adaptive"})
