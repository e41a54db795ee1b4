"""The loops that a user of PyTorch writes; their lines count for every peer that imports them."""

import torch
import torch.nn.functional as F
from work import Work


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, orders: torch.Tensor, work: Work) -> None:
    """Fit a model to classes or to soft targets."""
    optimiser = torch.optim.SGD(model.parameters(), lr=work.lr, momentum=0.9)
    model.train()
    for order in orders:
        for batch in torch.split(order, work.batch_size):
            optimiser.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()


@torch.no_grad()
def predict(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Its probabilities."""
    return torch.softmax(model.eval()(x), 1)
