"""What programs that a model starts may touch: a policy as data, one mechanism per system that holds them to it."""
