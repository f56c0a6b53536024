"""Composition: which adapters, which queues, which sandbox; and the worker's entry point."""
