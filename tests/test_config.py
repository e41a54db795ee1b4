"""Settings: presets, a TOML file, single settings, and what the configuration's hash says."""

import dataclasses
from pathlib import Path

import pytest
from torch import nn

from fedol.config import PRESETS, RunConfig, ServerConfig, configure
from fedol.errors import InputError
from fedol.training import Recipe


class Net(nn.Module):
    pass


def test_the_default_is_the_quick_job() -> None:
    assert configure() == configure("quick") == RunConfig()
    assert (RunConfig().dataset, RunConfig().clients, RunConfig().iterations) == ("digits", 10, 10)


def test_the_paper_preset_is_the_papers_settings() -> None:
    paper = configure("paper")
    assert (paper.dataset, paper.clients, paper.public) == ("cifar100", 10, 5000)
    assert (paper.epochs, paper.batch_size, paper.lr) == (50, 64, 1e-3)
    assert (paper.iterations, paper.tau, paper.rho, paper.rho_step) == (10, 0.2, 0.1, 0.05)
    assert (paper.client_models, paper.server_model) == (("resnet11", "resnet20"), "resnet56")


def test_preset_then_file_then_single_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('preset = "paper"\ntau = 0.5\nrho-step = 0.1\nclient_models = ["mlp", "cnn"]\n')
    config = configure(file=file, overrides={"tau": 0.9})
    assert config.public == PRESETS["paper"]["public"]  # from the preset that the file names
    assert (config.rho_step, config.client_models) == (0.1, ("mlp", "cnn"))  # from the file
    assert config.tau == 0.9  # given last
    assert configure("quick", file).public == RunConfig().public  # a preset given beside the file wins over its own
    assert configure("quick", file).tau == 0.5


def test_models_are_dealt_in_turn() -> None:
    config = RunConfig(client_models="resnet11, resnet20,")  # type: ignore[arg-type]
    assert config.client_models == ("resnet11", "resnet20")
    assert [config.client_model(k) for k in range(5)] == ["resnet11", "resnet20", "resnet11", "resnet20", "resnet11"]
    assert RunConfig(client_models=Net).client_models == (Net,)  # type: ignore[arg-type]


def test_every_setting_counts_in_the_hash() -> None:
    base = RunConfig()
    other: dict[str, object] = {"data_dir": "x", "client_models": ("mlp",), "server_model": "mlp"}
    other |= {
        "parameter_model": "mlp",
        "method": "feddf",
        "defence": "trust",
        "codec": "float32",
        "server_epochs": 3,
        "server_lr": 0.5,
        "server_optimiser": "sgd",
        "server_schedule": "cosine",
        "rho": 0.5,
        "rho_step": 0.1,
        "augment": True,
        "own_classes": True,
        "optimiser": "sgd",
        "schedule": "cosine",
        "patch": "cutmix",
        "client_patch": "cutout",
        "image_size": 32,
        "average": 0.9,
        "grow": 0.5,
        "label": "income",
        "text": "title",
        "categories": "sex",
        "missing": "-9",
        "test": "test.csv",
    }
    for field in dataclasses.fields(RunConfig):
        value = getattr(base, field.name)
        if field.name not in other:
            other[field.name] = f"{value}x" if isinstance(value, str) else value + 1
        assert dataclasses.replace(base, **{field.name: other[field.name]}).hash != base.hash, field.name
    assert RunConfig().hash == base.hash
    assert RunConfig(server_model=Net).as_json()["server_model"] == f"{__name__}:Net"


def test_a_setting_that_an_older_run_had_not_was_off() -> None:
    config = ServerConfig("t")
    assert config.changes({"task": "t"}) == {}  # also one that JSON writes as a list
    assert config.changes({"task": "t", "added": ["x"], "lr": 1}) == {"added": (["x"], []), "lr": (1, 0.001)}


def test_training_settings_reach_client_and_server() -> None:
    config = configure("best", overrides={"average": 0.5, "weight_decay": 0.1, "optimiser": "sgd"})
    assert (config.recipe.optimiser, config.distillation.recipe.optimiser) == ("sgd", "sgd")
    assert (config.recipe.augment, config.recipe.schedule, config.recipe.epochs) == (True, "cosine", 100)
    assert (config.recipe.patch, config.recipe.average, config.recipe.weight_decay) == (
        "none",
        0.0,
        0.0,
    )  # the server's
    server = config.distillation.recipe
    assert (server.augment, server.schedule, server.epochs) == (True, "cosine", 200)
    assert (server.patch, server.average, server.weight_decay) == ("cutmix", 0.5, 0.1)


def test_the_server_may_train_otherwise_than_its_clients() -> None:
    own = {"server_lr": 0.5, "server_optimiser": "RAdam", "server_schedule": "cosine"}
    config = configure(overrides={"lr": 0.1, "optimiser": "sgd", "schedule": "one-cycle", **own})
    assert (config.recipe.lr, config.recipe.optimiser, config.recipe.schedule) == (0.1, "sgd", "one-cycle")
    server = config.distillation.recipe
    assert (server.lr, server.optimiser, server.schedule, server.epochs) == (0.5, "RAdam", "cosine", config.epochs)


def test_quick_and_paper_train_as_the_paper_does() -> None:
    for preset in ("quick", "paper"):
        config = configure(preset)
        for recipe in (config.recipe, config.distillation.recipe):
            assert recipe == Recipe(recipe.epochs, recipe.batch_size, recipe.lr)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"augment": 1}, "'augment' must be true or false"),
        ({"schedule": "cosin"}, "cosine"),
        ({"patch": 3}, "'patch' must be text"),
        ({"data_dir": 3}, "'data_dir' must be text"),
        ({"epochs": True}, "'epochs' must be a whole number"),
        ({"tau": "high"}, "'tau' must be a number"),
        ({"parameter_model": 5}, "A model is a name"),
        ({"optimiser": 3}, "'optimiser' must be text"),
        ({"average": 1.5}, "average must lie in"),
        ({"development": 0.5}, "'development' must be a whole number"),
    ],
)
def test_wrong_training_settings_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        configure(overrides=settings)
