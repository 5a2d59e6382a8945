"""Claude at Bedrock's runtime in Messages, for models from 4.7 on."""
