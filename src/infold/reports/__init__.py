"""What can be said about a session, as values: computed once from a store, a log or a recorded session, shown anywhere."""
