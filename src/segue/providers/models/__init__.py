"""Facts about models: cards by name pattern, a catalog of known models, prices, what servers report, and listings."""
