"""What sharing reveals, measured (audit), and what limits it (differential privacy, noisy release)."""
