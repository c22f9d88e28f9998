"""`infold.wrap`: the same SDK client, its requests kept inside the context window."""
