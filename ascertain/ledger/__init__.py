"""The PostgreSQL store of effects, its pure twin, and what both decide alike."""
