"""Bedrock's mantle: Messages, Chat and Responses, with ids that name no region."""
