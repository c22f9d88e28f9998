"""Plugs for agent frameworks, one module each, imported by its own name; `sessions` is what all of them share."""
