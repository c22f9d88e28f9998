"""What a library user calls."""
