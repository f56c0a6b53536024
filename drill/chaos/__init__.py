"""Seeded chaos: everything goes wrong at once, at random, for as long as is asked for."""
