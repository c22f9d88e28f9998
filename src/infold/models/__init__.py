"""Models by name, asked through their providers' official SDKs."""
