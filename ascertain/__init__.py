"""Durable tasks whose effects outside exist exactly once or provably not at all."""
