"""State-Path Tool Menus in JAX (arXiv 2609.09395)."""

__version__ = "0.1.0"
