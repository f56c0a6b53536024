"""One archive of everything that recovery could change, taken before it changes."""
