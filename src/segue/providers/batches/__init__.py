"""Batch endpoints: many requests handed over at once, answered within a day, at a lower price. One module per wire.

The functions know paths only, as those of `services`. What all wires have in common is in `wire_batch`; `access` binds a
service to a provider, which writes the requests and reads the replies as it does one by one.
"""
