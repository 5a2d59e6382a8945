"""One request to a provider: planned and written, its events while they arrive, and its abort."""
