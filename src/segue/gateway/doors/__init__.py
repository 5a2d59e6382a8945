"""What a client may ask for: paths of every wire, and the services behind them that are no replies."""
