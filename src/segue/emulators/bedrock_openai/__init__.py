"""Models of OpenAI at Bedrock's runtime: open ones in Chat, the others in Responses."""
