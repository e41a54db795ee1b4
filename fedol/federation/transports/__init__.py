"""How knowledge files travel: a folder, or the nodes of a network on Flower."""
