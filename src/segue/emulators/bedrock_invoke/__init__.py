"""Bedrock's InvokeModel: Messages for Claude in an envelope of its own, and vectors in the form of their makers."""
