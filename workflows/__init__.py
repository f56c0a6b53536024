"""Temporal workflows: small, deterministic; they obey directives and know no policy."""
