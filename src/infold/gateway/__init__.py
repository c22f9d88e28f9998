"""The HTTP face: any agent, unchanged, by its base URL."""
