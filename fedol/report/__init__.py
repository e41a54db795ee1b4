"""What people look at: terminal tables, progress, plots."""
