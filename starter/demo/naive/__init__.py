"""The same payments as most code makes them: a step that failed is tried again, under a new key."""
