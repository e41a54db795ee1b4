"""`fedol run --method` with every method, on a tiny federation, and what each client sends."""

from dataclasses import replace

import pytest
import torch
from observing import Seen

import fedol
from fedol import methods
from fedol.config import configure
from fedol.distillation import serve
from fedol.errors import FedolError, InputError
from fedol.federation.scenario import Scenario, Scheme
from fedol.methods.fedavg import Weights
from fedol.methods.fedkt import Students
from fedol.methods.sides import Lesson, Predictions, guarded, once
from fedol.training import Fit, drive

TINY = {"clients": 3, "public": 60, "epochs": 1, "iterations": 2, "device": "cpu", "width": 4}


@pytest.fixture(scope="module")
def scenario():
    return Scenario(configure(overrides=TINY))


@pytest.mark.parametrize("method", methods.names())
def test_every_method_runs(method, tmp_path):
    summary = fedol.run(out=tmp_path / "run", method=method, **TINY).summary
    if method == "local":
        assert summary["server"] is None and summary["upload_bytes_per_client"] == 0
        return
    assert 0 <= summary["server"]["accuracy"] <= 1
    known = methods.find(method)
    iterations = 2 if known.iterates else 0 if known.combine else 1
    assert len(summary["history"]) == iterations
    model = "cnn" if known.combine else "cnn-large"
    assert summary["server"]["model"] == model
    assert summary["upload_bytes_per_client"] > 60


def test_server_epochs_are_the_servers_own(tmp_path):
    fedol.run(out=tmp_path, method="feddf", server_epochs=3, observer=(seen := Seen()), **TINY)
    assert seen.jobs.count("server 1/1") == 3 and seen.jobs.count("client 0") == 1


def test_an_unknown_method_is_known_before_anything_trains():
    with pytest.raises(InputError, match="did you mean 'fedavg'"):
        configure(overrides={"method": "fedavgg"})
    with pytest.raises(InputError, match="mu must be"):
        configure(overrides={"mu": -1.0})


def test_each_kind_of_upload_has_its_scheme(scenario):
    kinds = {m: type(methods.find(m).client) for m in methods.names()}
    assert kinds["fedkt"] is Students and kinds["fedprox"] is Weights and kinds["fedol"] is Predictions
    assert scenario.under(scenario.config).data is scenario.data


def job(process):
    """The first job of a process."""
    return next(process)


def test_parameter_clients_start_from_the_same_weights_and_knowledge_clients_do_not(scenario):
    averaging = Scheme.of(scenario.under(replace(scenario.config, method="fedprox", mu=0.5)))
    jobs = [job(averaging.client(k)) for k in range(3)]
    states = [j.model.state_dict() for j in jobs]
    assert all(torch.equal(states[0][name], other[name]) for other in states for name in states[0])
    assert {j.recipe.proximal for j in jobs} == {0.5} and len({j.seed for j in jobs}) == 3
    plain = Scheme.of(scenario.under(replace(scenario.config, method="fedavg")))
    assert job(plain.client(0)).recipe.proximal == 0.0
    predicting = Scheme.of(scenario.under(replace(scenario.config, method="feddf", client_models=("cnn",))))
    first, second = (job(predicting.client(k)).model.state_dict() for k in range(2))
    assert not torch.equal(first["head.weight"], second["head.weight"])


@pytest.mark.parametrize("method", ["fedavg", "feddf", "fedkt"])
def test_clients_and_servers_of_another_seed_start_from_other_weights(method):
    heads = []
    for seed in (0, 1):
        here = Scenario(configure(overrides={**TINY, "method": method, "seed": seed, "client_models": ("cnn",)}))
        told = once(torch.full((60, 10), 0.1))
        server = serve(told, here.public, here.server, here.config.recipe, seed, here.device)
        heads.append([job(part).model.state_dict()["head.weight"] for part in (Scheme.of(here).client(0), server)])
    assert not any(map(torch.equal, *heads))


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])  # whose pull is to the weights that a training starts from
def test_a_later_round_of_an_average_starts_from_the_broadcast(method, scenario):
    averaging = Scheme.of(scenario.under(replace(scenario.config, method=method)))
    broadcast = averaging.architecture(0).build(77)
    later = job(averaging.client(1, Lesson(2, broadcast)))
    assert later.model is not broadcast  # each client its own copy
    assert all(torch.equal(value, later.model.state_dict()[name]) for name, value in broadcast.state_dict().items())
    assert later.seed != job(averaging.client(1)).seed


def test_a_later_round_of_a_knowledge_method_is_feedback_then_private_data(scenario):
    predicting = Scheme.of(scenario.under(replace(scenario.config, method="feddf")))
    own = predicting.architecture(0).build(5)
    feedback = torch.softmax(torch.randn(60, 10), 1)
    heeded = torch.arange(60) % 8 == 3
    process = predicting.client(0, Lesson(3, own, feedback, heeded, epochs=4))
    first = next(process)
    assert first.recipe.epochs == 4 and torch.equal(first.inputs.values, scenario.public.values[3::8])
    assert torch.equal(first.targets, feedback[3::8]) and first.model is own
    second = process.send(Fit(first, (0.0,), 2.0, "none"))
    assert len({first.seed, second.seed, job(predicting.client(0)).seed}) == 3  # every training in another order
    assert second.recipe.epochs == 1 and len(second.inputs) == len(scenario.shares[0]) and second.model is own
    with pytest.raises(StopIteration) as end:
        process.send(Fit(second, (0.0,), 3.0, "none"))
    assert end.value.value.seconds == 5.0


def test_no_feedback_at_all_is_no_training_on_it(scenario):
    predicting = Scheme.of(scenario.under(replace(scenario.config, method="fedhkt")))
    nothing = torch.zeros(60, dtype=torch.bool)
    lesson = Lesson(2, predicting.architecture(0).build(5), torch.full((60, 10), 0.1), nothing)
    assert job(predicting.client(0, lesson)).name == "client 0"


def test_one_failing_client_stops_no_other(scenario):
    predicting = Scheme.of(scenario)

    def failing():
        yield from ()
        raise FedolError("client 1 diverged.")

    outcomes = dict(drive([guarded(predicting.client(0)), guarded(failing())], torch.device("cpu")))
    assert isinstance(outcomes[1], FedolError) and outcomes[0].seconds > 0
