"""Named statements, one file per table group."""
