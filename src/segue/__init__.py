"""One provider-neutral conversation, rendered valid for whichever language model comes next."""
