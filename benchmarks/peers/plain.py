"""Both works in plain PyTorch, one client after the other."""

import torch
from loop import predict, train
from work import Work, large, small


def fedavg(work: Work) -> dict[str, torch.Tensor]:
    """One round: the clients' weights, averaged by their numbers of samples."""
    states, sizes = [], []
    for k in range(work.clients):
        x, y, orders = work.client(k)
        model = small()
        train(model, x, y, orders, work)
        states.append(model.state_dict())
        sizes.append(len(y))
    return {
        name: sum(size * state[name] for size, state in zip(sizes, states, strict=True)) / sum(sizes)
        for name in states[0]
    }


def distill(work: Work) -> dict[str, torch.Tensor]:
    """One upload: the server learns the mean of the clients' predictions on the public images."""
    public, public_orders = work.public()
    answers = []
    for k in range(work.clients):
        x, y, orders = work.client(k)
        model = small()
        train(model, x, y, orders, work)
        answers.append(predict(model, public))
    targets = torch.stack(answers).mean(0)
    server = large()
    train(server, public, targets, public_orders, work)
    return {"targets": targets, "server": predict(server, public)}
