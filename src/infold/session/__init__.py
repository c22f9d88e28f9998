"""The session: `fit`, `Session`, `AsyncSession`, and what they are made of."""
