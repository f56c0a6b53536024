"""The same job done by Ascertain, by plain Temporal and by a bare call, side by side in one run."""
