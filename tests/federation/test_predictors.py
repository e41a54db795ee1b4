"""Any framework as a client: what a model is handed and what may come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from small_federation import Federation

from fedol import Task
from fedol.errors import InputError
from fedol.federation.client import client_data, client_fit
from fedol.federation.outputs import knowledge_of
from fedol.federation.predictors import predict_knowledge
from fedol.federation.taskfolder import TaskFolder
from fedol.training import Epoch, Recipe

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 1, 4, 4), dtype=np.uint8)
TASK = Task.of(IMAGES, ["a", "b", "c"], "t")
ROWS = IMAGES.reshape(30, 16).astype(np.float32) / 255


def module(tmp_path: Path, body: str) -> str:
    (tmp_path / "mine.py").write_text(body)
    return f"{tmp_path / 'mine.py'}:load"


def test_a_torch_module_gives_logits(tmp_path: Path) -> None:
    spec = module(
        tmp_path,
        "import torch\ndef load():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))\n",
    )
    torch.manual_seed(0)
    same = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    with torch.no_grad():
        expected = same(torch.from_numpy(ROWS).reshape(30, 1, 4, 4)).softmax(1)
    torch.testing.assert_close(predict_knowledge(spec, IMAGES, TASK, "x").probabilities(), expected)


@pytest.mark.parametrize("names", [False, True])
def test_a_forest_that_knows_some_classes(tmp_path: Path, names: bool) -> None:
    y = np.arange(30) % 2 * 2  # classes 0 and 2: never the middle one
    forest = RandomForestClassifier(5, random_state=0).fit(ROWS, np.array(["a", "b", "c"])[y] if names else y)
    joblib.dump(forest, tmp_path / "forest.joblib")
    probs = predict_knowledge(str(tmp_path / "forest.joblib"), IMAGES, TASK, "x").probabilities().numpy()
    np.testing.assert_allclose(probs[:, [0, 2]], forest.predict_proba(ROWS), atol=1e-6)
    assert (probs[:, 1] < 1e-30).all()


def test_a_function_may_give_probabilities(tmp_path: Path) -> None:
    spec = module(
        tmp_path,
        "import numpy as np\ndef load():\n    def f(images):\n        assert images.dtype == np.uint8\n"
        "        return np.tile([0.7, 0.2, 0.1], (len(images), 1))\n    return f\n",
    )
    np.testing.assert_allclose(
        predict_knowledge(spec, IMAGES, TASK, "x").probabilities()[0], [0.7, 0.2, 0.1], rtol=1e-5
    )


@pytest.mark.parametrize("flat", [False, True])
def test_onnx(tmp_path: Path, flat: bool) -> None:
    pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    helper = pytest.importorskip("onnx", reason="needs the package onnx").helper
    import onnx

    weight = np.random.default_rng(1).normal(size=(16, 3)).astype(np.float32)
    shape = ["batch", 16] if flat else ["batch", 1, 4, 4]
    nodes = [helper.make_node("Flatten", ["x"], ["rows"]), helper.make_node("MatMul", ["rows", "w"], ["logits"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 3])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    found = predict_knowledge(str(tmp_path / "m.onnx"), IMAGES, TASK, "x").probabilities()
    torch.testing.assert_close(found, torch.from_numpy(ROWS @ weight).softmax(1), atol=1e-5, rtol=1e-4)


def test_fit_then_predict(federation: Federation, tmp_path: Path) -> None:
    recipe = Recipe(epochs=2, batch_size=32)
    result = client_fit(federation.task, "digits", "mlp", tmp_path / "m.safetensors", recipe, device="cpu")
    assert result["samples"] == 1438 and result["accuracy"] > 0.3
    knowledge = predict_knowledge(str(tmp_path / "m.safetensors"), federation.public, federation.task, "x")
    assert knowledge.log_probs.shape == (80, 10)
    with pytest.raises(InputError, match="other classes"):
        predict_knowledge(str(tmp_path / "m.safetensors"), IMAGES, TASK, "x")


def test_client_data_by_name_and_by_position(tmp_path: Path) -> None:
    arrays = {"train_x": IMAGES, "train_y": np.arange(30) % 2, "test_x": IMAGES, "test_y": np.arange(30) % 2}
    np.savez(tmp_path / "named.npz", **arrays, classes=["c", "a"])
    np.savez(tmp_path / "unnamed.npz", **arrays)
    np.savez(tmp_path / "strange.npz", **arrays, classes=["c", "z"])
    assert set(client_data(str(tmp_path / "named.npz"), TASK)[0].y.tolist()) == {2, 0}
    assert set(client_data(str(tmp_path / "unnamed.npz"), TASK)[0].y.tolist()) == {0, 1}
    with pytest.raises(InputError, match="class 'z'"):
        client_data(str(tmp_path / "strange.npz"), TASK)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def load(): return 3", "is not a model"),
        ("def load(): return lambda x: 1 / 0", "ZeroDivisionError"),
        ("import numpy\ndef load(): return lambda x: numpy.ones((len(x), 7))", r"shape \[30, 7\]"),
        ("import numpy\ndef load(): return lambda x: numpy.full((len(x), 3), numpy.nan)", "NaN"),
        ("x = 1", "has no 'load'"),
        ("def load(): return open('weights')", "mine.py:load' cannot be loaded: FileNotFoundError"),
        ("def load(path): return path", "mine.py:load' cannot be loaded: TypeError"),
    ],
)
def test_models_that_are_wrong(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        predict_knowledge(module(tmp_path, body), IMAGES, TASK, "x")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    for name, words in [("none.onnx", "There is no model file"), ("model.pkl", "A model is a file")]:
        with pytest.raises(InputError, match=words):
            predict_knowledge(str(tmp_path / name), IMAGES, TASK, "x")
    (tmp_path / "bad.joblib").write_bytes(b"junk")
    with pytest.raises(InputError, match="cannot be loaded"):
        predict_knowledge(str(tmp_path / "bad.joblib"), IMAGES, TASK, "x")


def test_images_of_another_size_are_refused_before_the_training(federation: Federation, tmp_path: Path) -> None:
    x, y = np.zeros((40, 12, 12), np.uint8), np.arange(40) % 10
    np.savez(tmp_path / "big.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    data, out = str(tmp_path / "big.npz"), tmp_path / "m.safetensors"
    public = TaskFolder.open(federation.task_dir).known()
    with pytest.raises(InputError, match="Your images are 1x12x12, but the task's public ones are 1x8x8"):
        client_fit(federation.task, data, "mlp", out, Recipe(1, 32), device="cpu", public=public)
    client_fit(federation.task, data, "mlp", out, Recipe(1, 32), device="cpu")  # nobody knew
    with pytest.raises(InputError, match="takes images of 1x12x12, but these are 1x8x8"):
        predict_knowledge(str(out), federation.public, federation.task, "x")


def test_a_stopped_fit_goes_on_after_its_last_epoch(federation: Federation, tmp_path: Path) -> None:
    def fit(name: str, seed: int = 0, stop: int = 0) -> list[int]:
        seen: list[int] = []

        def on_epoch(epoch: Epoch) -> None:
            seen.append(epoch.epoch)
            if epoch.epoch == stop:
                raise KeyboardInterrupt

        out, recipe = tmp_path / name, Recipe(epochs=5, batch_size=32)
        client_fit(federation.task, "digits", "mlp", out, recipe, seed=seed, device="cpu", on_epoch=on_epoch)
        return seen

    assert fit("whole") == [1, 2, 3, 4, 5]
    with pytest.raises(KeyboardInterrupt):
        fit("stopped", stop=3)
    assert (tmp_path / "stopped.unfinished").exists() and not (tmp_path / "stopped").exists()
    (tmp_path / "other.unfinished").write_bytes((tmp_path / "stopped.unfinished").read_bytes())
    assert fit("other", seed=1) == [1, 2, 3, 4, 5]  # of another training: not gone on with
    assert fit("stopped") in ([4, 5], [3, 4, 5])  # the third may have been stopped before it was kept
    assert (tmp_path / "stopped").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.mark.parametrize("change", [lambda p: 100 * p, lambda p: p.round(2), lambda p: np.full_like(p, 0.3)])
def test_probabilities_that_do_not_sum_to_one_are_not_taken_for_logits(
    change: Callable[[np.ndarray], np.ndarray],
) -> None:
    public = np.zeros((40, 1, 8, 8), np.uint8)
    probs = np.random.default_rng(0).dirichlet(np.ones(10), size=40)
    task = Task.of(public, [str(digit) for digit in range(10)])
    with pytest.raises(InputError, match="look like probabilities, but their rows sum to"):
        knowledge_of(change(probs), task, "me")
    logits = np.abs(np.random.default_rng(1).normal(size=(40, 10)))  # of a network that ends with a ReLU
    np.testing.assert_allclose(
        knowledge_of(logits, task, "me").log_probs.exp(),
        np.exp(logits) / np.exp(logits).sum(1, keepdims=True),
        rtol=1e-4,
    )
