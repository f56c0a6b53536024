"""Frozen values that cross a process boundary, and the names on the wire."""
