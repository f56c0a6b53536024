"""Named statements on a service's tables."""
