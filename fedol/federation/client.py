"""A client that wants our training: one of FedOL's models on its own data, for the task's classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedol.code import imported
from fedol.data import Dataset, Labelled, Reading, fingerprint, load
from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError, cause
from fedol.knowledge.header import Ratios
from fedol.knowledge.task import Task
from fedol.model import Architecture, ServerModel
from fedol.models import ModelSpec, describe
from fedol.models.fitted import Fitted
from fedol.models.openset import MOST_FOLDS, OpenSet, sensible
from fedol.models.pretrained import Pretrained
from fedol.privacy.converted import spec_for
from fedol.privacy.training import Budget, fit_private
from fedol.runs.evaluation import accuracy
from fedol.seeding import derive
from fedol.settings.presets import suited
from fedol.training import Job, OnEpoch, Recipe, fit, resolve_device
from fedol.training.job import folds_of
from fedol.training.snapshot import EpochFile


def client_data(source: str, task: Task, reading: Reading = Reading()) -> tuple[Labelled, Labelled]:
    """A client's training and test samples with the task's labels, by class name or, where there is none, by position.

    A client need not hold all of the task's classes. The source is what ``load`` takes, or ``my.py:function``;
    ``reading`` says what its columns mean, if it has some.
    """
    if task.image_size is not None and Path(source).expanduser().is_dir():
        reading = replace(reading, image_size=task.image_size)
    data = _made(source) if ":" in source and not Path(source).exists() else load(source, reading=reading)
    index = task_classes(data, task)
    train, test = (Labelled(part.samples, index[part.y]) for part in (data.train, data.test))
    return train, test


def _made(source: str) -> Dataset:
    """What a client's own function gives: a dataset, or the four arrays of one."""
    function = imported(source, "data source")
    try:
        made = function()
        if isinstance(made, Dataset):
            return made
        train_x, train_y, test_x, test_y = made
    except Exception as error:
        what = "a fedol.data.Dataset or four arrays: train_x, train_y, test_x, test_y"
        raise InputError(f"The data source '{source}' must give {what}; it failed: {cause(error)}.") from error
    return Dataset.from_arrays(train_x, train_y, test_x, test_y, name=source)


def task_classes(data: Dataset, task: Task) -> np.ndarray:
    """The task's class of every class of the data; data of findings must have the task's."""
    if data.findings != task.findings:
        have, wants = (", ".join(each) or "none, but a class of each sample" for each in (data.findings, task.findings))
        raise InputError(f"{data.name} has the findings {have}; the task wants {wants}.")
    if set(data.classes) <= set(task.classes):
        return np.array([task.classes.index(name) for name in data.classes])
    if data.unnamed and len(data.classes) <= len(task.classes):
        return np.arange(len(data.classes))
    stranger = sorted(set(data.classes) - set(task.classes))[0]
    raise InputError(f"{data.name} has the class '{stranger}', which the task has not; rename it or leave it out.")


def client_fit(
    task: Task,
    data: str,
    model: ModelSpec | None,
    out: Path,
    recipe: Recipe,
    width: int = 16,
    seed: int = 0,
    device: str = "auto",
    on_epoch: OnEpoch = lambda epoch: None,
    budget: Budget | None = None,
    folds: int = 0,
    public: Samples | None = None,
    own_classes: bool = False,
    reading: Reading = Reading(),
) -> dict[str, Any]:
    """Train a model and write it to ``out``; returns its loss and its accuracy on the client's own test samples.

    Every epoch is kept beside ``out`` until the end: stopped at any moment, the same call goes on after the last one.
    With a privacy budget the training is differentially private, and the model file says so; it then starts anew.
    With ``folds`` the model also learns what is public, once a fold (``fedol.methods.union``); it needs the ``public``
    samples. Where they are known, data unlike them are refused: what was trained on those could not predict these.
    With ``own_classes`` it has outputs for the classes alone that its training samples have. Without a ``model``
    it is one that takes samples of their kind.
    """
    if folds and not sensible(folds):
        raise InputError(f"--folds must lie between 2 and {MOST_FOLDS}, or be 0 for no masses, but is {folds}.")
    if folds and (public is None or len(public) < 2 * folds):
        given = "none are given" if public is None else f"the task has {len(public)}"
        raise InputError(f"{folds} folds need at least {2 * folds} public samples, but {given}.")
    if own_classes and budget:
        raise InputError(
            "--own-classes tells exactly which classes your data have, which no privacy budget covers; leave one out."
        )
    train, test = client_data(data, task, reading.under(public))
    if public is not None:
        train, test = (replace(part, samples=part.samples.like(public)) for part in (train, test))
    # A private model is scaled by constants: the data's own mean and spread would be released without noise.
    prepare = train.samples.unfitted() if budget else train.samples.fit(public)
    model = suited("client_models", train.samples.kind, ("resnet20",))[0] if model is None else model
    model = spec_for(model) if budget else model
    like = train.samples if public is None else public  # which a pretrained model's features are standardised by
    if budget and public is None and Pretrained.parse(model):
        raise InputError("The features of a private model are standardised by the public samples; give --public.")
    known = Architecture.on(like, model, task.classes, width, prepare, task.findings)
    architecture = replace(known, folds=folds)
    if task.findings and (own_classes or budget):
        what = "--own-classes" if own_classes else "--dp-epsilon"
        raise InputError(f"The task asks for findings of a sample, for which there is no {what}; leave it out.")
    architecture.prepare.ready(train.samples)
    if own_classes:
        architecture = architecture.holding(train.y)
    where = resolve_device(device)
    identity = _identity(task, architecture, train, recipe, seed)
    whole = Job(
        name="client",
        model=architecture.build(derive(seed, "client", "init")),
        inputs=train.samples,
        targets=torch.from_numpy(train.y),
        prepare=architecture.prepare,
        recipe=recipe,
        seed=derive(seed, "client"),
        alone=True,
    )
    if budget and any(isinstance(part, Fitted) for part in whole.model.modules()):
        raise InputError(f"'{describe(model)}' has no private training; choose a network, or leave --dp-epsilon out.")
    record: dict[str, Any] = {"recipe": recipe.as_json()}  # an audit trains models of this kind
    jobs: Iterable[Job] = [whole]
    if public is not None and isinstance(whole.model, OpenSet):
        jobs = folds_of(whole, whole.model, public, len(task.classes))
        # Under differential privacy the number of private samples is itself a secret.
        record |= {"ratios": asdict(Ratios(0 if budget else len(train), folds)), "public": task.fingerprint}
    kept, losses, guarantee = list[EpochFile](), list[float](), None
    for number, job in enumerate(jobs):
        if budget:  # not kept between epochs: its noise must not be drawn twice for one budget
            loss, spent = fit_private(job, budget.part(max(1, folds)), where, on_epoch)
            guarantee = spent if guarantee is None else guarantee.and_then(spent)
        else:
            name = f"{out.name}.fold{number + 1}.unfinished" if folds else f"{out.name}.unfinished"
            kept.append(EpochFile(out.with_name(name), identity))
            job = replace(job, resume=kept[-1].read(), checkpoint=kept[-1].keep)
            (result,) = fit([job], where, on_epoch)
            if result.error:
                raise FedolError(result.error)
            loss = result.losses[-1]
        losses.append(loss)
    if guarantee:
        record["privacy"] = asdict(guarantee)
    trained = ServerModel(whole.model, architecture, [record], where)
    score = accuracy(trained.predict_log_proba(test.samples), test.answers)
    trained.save(out)
    for file in kept:
        file.forget()
    found = {"samples": len(train), "loss": sum(losses) / len(losses), "accuracy": score}
    held = [task.classes[c] for c in architecture.held] or None
    return {**found, "folds": folds, "held": held, "privacy": record.get("privacy")}


def _identity(task: Task, architecture: Architecture, train: Labelled, recipe: Recipe, seed: int) -> dict[str, Any]:
    """What a training depends on: an epoch of any other is not gone on with."""
    data = [train.samples.fingerprint, fingerprint(train.y)]
    return {"task": task.id, "model": architecture.header(), "data": data, "recipe": recipe.as_json(), "seed": seed}
