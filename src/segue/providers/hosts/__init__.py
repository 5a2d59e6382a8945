"""Where providers are: their addresses, base URLs as users write them, and how a host takes the requests of a wire."""
