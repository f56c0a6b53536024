"""For adapter authors: the conformance kit, a toy outside world, a proxy that breaks connections.

Import what you need from the modules.
"""
