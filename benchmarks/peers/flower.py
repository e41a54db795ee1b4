"""Both works on Flower's simulation engine: clients are nodes, and as many train at once as there are cores."""

import os
import time

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from loop import predict, train
from work import Work, large, small

averaging, answering = ClientApp(), ClientApp()


@averaging.train()
def weights(message: Message, context: Context) -> Message:
    """A client trains the weights that it was sent, and returns them."""
    work = Work()
    x, y, orders = work.client(int(context.node_config["partition-id"]))
    model = small()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model, x, y, orders, work)
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(RecordDict(content), reply_to=message)


@answering.train()
def answers(message: Message, context: Context) -> Message:
    """A client trains a model of its own, and returns what that predicts on the public images."""
    work = Work()
    x, y, orders = work.client(int(context.node_config["partition-id"]))
    model = small()
    train(model, x, y, orders, work)
    said = predict(model, work.public()[0])
    return Message(RecordDict({"arrays": ArrayRecord({"said": said})}), reply_to=message)


def fedavg(work: Work) -> dict[str, torch.Tensor]:
    """One round of Flower's own strategy."""
    app, found = ServerApp(), {}

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=work.clients, min_available_nodes=work.clients)
        result = strategy.start(grid, initial_arrays=ArrayRecord(small().state_dict()), num_rounds=1)
        found.update(result.arrays.to_torch_state_dict())

    simulate(app, averaging, work)
    return found


def distill(work: Work) -> dict[str, torch.Tensor]:
    """Strategies average weights, so the messages are our own."""
    app, found = ServerApp(), {}

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        while len(nodes := list(grid.get_node_ids())) < work.clients:
            time.sleep(0.1)
        asked = [Message(RecordDict(), node, "train") for node in nodes]
        replies = [reply.content["arrays"].to_torch_state_dict() for reply in grid.send_and_receive(asked)]
        targets = torch.stack([reply["said"] for reply in replies]).mean(0)
        public, public_orders = work.public()
        server = large()
        train(server, public, targets, public_orders, work)
        found.update(targets=targets, server=predict(server, public))

    simulate(app, answering, work)
    return found


def simulate(server: ServerApp, client: ClientApp, work: Work) -> None:
    """A core for each client that trains."""
    resources = {
        "init_args": {"num_cpus": len(os.sched_getaffinity(0)), "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0},
    }
    run_simulation(server, client, num_supernodes=work.clients, backend_config=resources)
