"""The conformance lab: plays scenarios through any gateway, with emulated providers behind it, and judges what arrived on both
sides. It knows nothing of our own gateway but its address."""
