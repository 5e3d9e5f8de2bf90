"""Readers: every one gives `analysis.Run` records, whatever the log."""
