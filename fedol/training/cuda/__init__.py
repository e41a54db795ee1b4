"""The CUDA engine: a training step as one graph, many models side by side."""
