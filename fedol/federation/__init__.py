"""How knowledge travels: in process (a simulation), as files in a folder, over a network."""
