"""What a site gets back: its own model against the server, the server adapted to it, its own kind trained again."""
