"""The schema, forward only: ``pre`` files before a release rolls out, ``post`` files after it."""
