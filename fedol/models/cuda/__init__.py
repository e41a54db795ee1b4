"""Layers as CUDA graphs want them: fused norms in Triton, kernels compiled ahead, gradients beside the chain."""
