"""Forward-only migrations of a service's tables."""
