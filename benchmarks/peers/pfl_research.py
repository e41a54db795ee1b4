"""Both works with pfl-research, which trains one user after the other and sums what they return."""

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from loop import predict, train
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import FederatedNNAlgorithm, NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.postprocessor.base import Postprocessor
from pfl.stats import MappedVectorStatistics
from work import Work, large, small

WHOLE = 10**9  # the batch size that evaluations ask for


class Net(torch.nn.Module):
    """A model as pfl wants one: it knows its loss and its metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small()

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.net(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        """Nothing that takes time: the first iteration asks before and after each training, whatever its settings."""
        return {"samples": Weighted.from_unweighted(len(y))}


class User(Dataset):
    """A user's samples in the order of each epoch; pfl's own are in the same one in all."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, orders: torch.Tensor) -> None:
        super().__init__((x, y))
        self.orders = iter(orders)

    def iter(self, batch_size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        x, y = self.raw_data
        for batch in [slice(None)] if batch_size == WHOLE else torch.split(next(self.orders), batch_size):
            yield x[batch], y[batch]


class Answering(FederatedAveraging):
    """The users' statistics are predictions; the server learns their mean."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work, self.found = work, {}

    def train_one_user(
        self, initial: MappedVectorStatistics, model: PyTorchModel, user: User, context: CentralContext
    ) -> tuple[MappedVectorStatistics, Metrics]:
        super().train_one_user(initial, model, user, context)
        said = predict(model.pytorch_model.net, self.work.public()[0])
        return MappedVectorStatistics({"said": said}), Metrics()

    def process_aggregated_statistics(
        self, context: CentralContext, metrics: Metrics, model: PyTorchModel, statistics: MappedVectorStatistics
    ) -> tuple[PyTorchModel, Metrics]:
        statistics.average()
        public, public_orders = self.work.public()
        server, targets = large(), statistics["said"]
        train(server, public, targets, public_orders, self.work)
        self.found = {"targets": targets, "server": predict(server, public)}
        return model, Metrics()


def fedavg(work: Work) -> dict[str, torch.Tensor]:
    """One iteration of pfl's own algorithm; the server adds the mean of the users' differences."""
    model = run(work, FederatedAveraging(), [WeightByDatapoints()])
    return model.pytorch_model.net.state_dict()


def distill(work: Work) -> dict[str, torch.Tensor]:
    """An algorithm of our own."""
    algorithm = Answering(work)
    run(work, algorithm, [])
    return algorithm.found


def run(work: Work, algorithm: FederatedNNAlgorithm, postprocessors: list[Postprocessor]) -> PyTorchModel:
    """All users once."""
    users = get_user_sampler("minimize_reuse", range(work.clients))
    data = FederatedDataset(lambda k: User(*work.client(k)), users)
    net = Net()
    local = partial(torch.optim.SGD, momentum=0.9)
    return algorithm.run(
        NNAlgorithmParams(
            central_num_iterations=1, evaluation_frequency=1, train_cohort_size=work.clients, val_cohort_size=None
        ),
        SimulatedBackend(data, data, postprocessors),
        PyTorchModel(net, local, torch.optim.SGD(net.parameters(), lr=1.0)),
        NNTrainHyperParams(local_batch_size=work.batch_size, local_num_epochs=work.epochs, local_learning_rate=work.lr),
        NNEvalHyperParams(local_batch_size=WHOLE),
    )
