"""For adapter authors: a toy outside world that keeps books, and a proxy that breaks connections.

Import what you need from the modules; they need the ``testing`` extra.
"""
