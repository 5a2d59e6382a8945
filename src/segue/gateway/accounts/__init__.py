"""Who may use the gateway, how much, and what they have used."""
