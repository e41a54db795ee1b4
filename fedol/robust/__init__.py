"""Clients that lie: attacks to test with, and defences that need no label (docs/robustness.md)."""
