"""Carries decisions out: effects, the flow that asks for them, and the two ways to drive it."""
