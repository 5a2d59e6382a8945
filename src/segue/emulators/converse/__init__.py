"""Amazon Bedrock's runtime: Converse, its event stream and its token counts, with signed requests or API keys."""
