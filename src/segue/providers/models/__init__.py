"""Facts about models: cards (what requests may hold), catalog (names, prices), learned (from servers), listing, prices."""
