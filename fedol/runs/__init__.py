"""A run is a folder: its files and locks, where it comes from, and what is read off it at the end."""
