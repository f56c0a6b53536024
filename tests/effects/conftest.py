"""Whole deployments for effects at real outsides: the protocol's, with one more kind."""

from __future__ import annotations

from tests.protocol.conftest import deployments, temporal_client

__all__ = ["deployments", "temporal_client"]
