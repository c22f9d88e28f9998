"""Model adapters, one per provider SDK."""
