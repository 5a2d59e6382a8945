"""Clients of a gateway, one per wire: each keeps its history as the programs of that wire do, and knows no other."""
