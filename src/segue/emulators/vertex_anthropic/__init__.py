"""Claude at Google Cloud: Messages in another envelope, with the model in the path and the version in the body."""
