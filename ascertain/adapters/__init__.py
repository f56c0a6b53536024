"""One module per reference effect, over one HTTP layer. Adapters do not know each other."""
