"""The explorer: every interleaving of the protocol's actors, walked over its pure core and pure ledger."""
