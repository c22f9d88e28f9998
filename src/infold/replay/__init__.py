"""Replay recorded transcripts under policies: what they would have cost and kept."""
