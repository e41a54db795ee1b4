"""Cells: equal work has one name, different work another; and what a benchmark consists of."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from torch.optim import SGD

from fedol.bench.cells import Cell
from fedol.bench.plan import client_work
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.config import configure
from fedol.data import load
from fedol.errors import InputError
from fedol.federation.scenario import Scenario
from fedol.knowledge.codecs import DEFAULT
from fedol.methods import CEILING, ENSEMBLE, METHODS, Method, compared
from fedol.settings import RunSettings

PAPER = configure("paper")
RESULTS = Path(__file__).parents[2] / "results"
HASH_BEFORE_THEM = "92bfa2831d8aeb9c"


ONE_ROUND = compared("one-round")


def cell(method, **changes):
    return Cell.of(method, replace(PAPER, **changes))


@pytest.mark.parametrize(
    ("method", "change", "matters"),
    [
        ("feddf", {"tau": 0.5}, False),
        ("fedol", {"tau": 0.5}, True),
        ("fedol-tau0", {"tau": 0.5}, False),
        ("feddf", {"mu": 1.0}, False),
        ("fedavg", {"mu": 1.0}, False),
        ("fedprox", {"mu": 1.0}, True),
        ("fedavg", {"server_epochs": 500}, False),
        ("feddf", {"server_epochs": 500}, True),
        ("feddf", {"server_epochs": 50}, False),  # what it is anyway
        ("local", {"server_model": "resnet20"}, False),
        ("fedavg", {"client_models": ("resnet20",)}, False),
        ("feddf", {"client_models": ("resnet20",)}, True),
        ("fedavg", {"parameter_model": "resnet11"}, True),
        (CEILING, {"partition": "classes:20"}, False),
        (CEILING, {"seed": 1}, True),
        (ENSEMBLE, {"partition": "classes:20"}, True),
        ("fedol", {"device": "cpu"}, False),
        ("fedol", {"data_dir": "/elsewhere"}, False),
        ("fedkt", {"epochs": 10}, True),
        ("fedol", {"rho": 0.3}, True),
        ("fedol-reinit", {"rho": 0.3}, True),
        ("fedol-reinit", {"rho_step": 0.1}, True),
        ("fedol+", {"rho": 0.3}, False),  # it finds its own
        ("fedol+", {"tau": 0.3}, True),
        ("pooled", {"tau": 0.3}, False),
        ("local", {"augment": True}, True),
        ("local", {"development": 100}, True),
        ("feddf", {"schedule": "cosine"}, True),
        ("local", {"optimiser": "sgd"}, True),
        (CEILING, {"optimiser": "sgd"}, True),
        ("feddf", {"patch": "cutmix"}, True),
        ("feddf", {"average": 0.9}, True),
        ("local", {"patch": "cutmix", "average": 0.9}, False),  # the server's
        ("feddf", {"weight_decay": 0.1}, True),
        ("feddf", {"server_lr": 0.1}, True),
        ("feddf", {"server_optimiser": "sgd"}, True),
        (CEILING, {"server_schedule": "cosine"}, True),
        ("local", {"server_lr": 0.1, "server_optimiser": "sgd", "server_schedule": "cosine"}, False),
        ("fedavg", {"server_lr": 0.1}, False),  # its server trains nothing
        ("feddf", {"own_classes": True}, True),
        ("local", {"own_classes": True}, True),
        ("feddf", {"codec": "float16"}, True),
        ("fedavg", {"codec": "float16"}, False),  # it sends weights
        ("fedkt", {"codec": "float16"}, False),  # and labels
    ],
)
def test_only_what_matters_enters_the_hash(method, change, matters):
    assert (cell(method).hash != cell(method, **change).hash) == matters


NOT_OF_A_RESULT = ("data_dir", "device")
OTHERS = [field for field in fields(RunSettings) if field.name != "method"]  # which is the cell's own


@pytest.mark.parametrize("field", OTHERS, ids=lambda field: field.name)
def test_every_setting_enters_the_hash_of_some_method(field):
    """One that is added and forgotten would let a benchmark show results of another value."""
    words = {"defence": "floor", "codec": "float16", "partition": "iid", "dataset": "cifar10"}
    words |= dict.fromkeys(("patch", "client_patch"), "cutout") | dict.fromkeys(
        ("schedule", "server_schedule"), "cosine"
    )
    words |= dict.fromkeys(("optimiser", "server_optimiser"), "sgd")
    value = {"int": 7, "float": 0.5, "bool": True}.get(str(field.type).split(" | ")[0], words.get(field.name, "mlp"))
    methods = ["feddf"] if field.name in ("defence", "own_classes") else list(METHODS)  # others have none
    changed = [name for name in methods if cell(name).hash != cell(name, **{field.name: value}).hash]
    assert bool(changed) == (field.name not in NOT_OF_A_RESULT)


def test_an_optimiser_of_yours_is_known_by_its_code(tmp_path):
    file = tmp_path / "own.py"
    rule = "from torch.optim import SGD\n\ndef mine(parameters, lr):\n    return SGD(parameters, lr, momentum={})\n"

    def hashes():
        return [cell("feddf", **{name: f"{file}:mine"}).hash for name in ("optimiser", "server_optimiser")]

    file.write_text(rule.format(0.5))
    before = hashes()
    file.write_text(f"# A comment.\n{rule.format(0.5)}")
    assert hashes() == before
    file.write_text(rule.format(0.8))
    assert not set(hashes()) & set(before)
    assert cell("feddf", optimiser=SGD).hash == cell("feddf", optimiser=SGD).hash != cell("feddf").hash


def test_servers_trained_otherwise_share_their_clients():
    best = configure("best")
    same = [Cell.of("fedol+", replace(best, **change)).clients for change in ({}, {"patch": "none"}, {"average": 0.0})]
    assert len(set(same)) == 1 != len({same[0], Cell.of("fedol+", replace(best, augment=False)).clients})


def test_the_preset_best_is_the_one_whose_results_are_published():
    """Every setting of it: its twelve runs have the names of its cells."""
    best = configure("best")
    assert best.method == "pooled"
    published = BenchFolder(RESULTS / "best")
    for partition in Spec.from_json({"kind": "one-round", "preset": "best"}).partitions:
        for seed in (3, 4, 5):
            assert published.finished(Cell.of("pooled", replace(best, partition=partition, seed=seed)))


def test_settings_that_were_added_later_change_no_earlier_hash():
    assert cell("fedol", codec=DEFAULT).hash == HASH_BEFORE_THEM


def test_knowledge_methods_share_their_clients_and_others_have_their_own():
    clients = {method: cell(method).clients for method in ONE_ROUND}
    shared = clients["fedol"]
    assert all(clients[m] == shared for m in ("local", "feddf", "fedhkt", "fedet", "mine", "mine-hard", ENSEMBLE))
    assert clients["fedavg"] == clients["fedavg-bn"] != clients["fedprox"]
    assert len({shared, clients["fedavg"], clients["fedprox"], clients["fedkt"]}) == 4


def test_all_cells_of_a_table_differ_and_the_mixture_is_one_of_them():
    hashes = [cell(method).hash for method in ONE_ROUND]
    assert len(set(hashes)) == len(hashes)
    assert cell("mixture").hash == cell("fedhkt-k").hash
    assert Cell.of("feddf", PAPER, rounds=15).hash != cell("feddf").hash


def test_feedback_matters_only_where_there_is_any():
    def hashes(method, rounds):
        kinds = [{"feedback": "server"}, {"feedback": "teacher"}, {"feedback_epochs": 10}]
        return {Cell.of(method, PAPER, rounds, **kind).hash for kind in kinds}

    assert [len(hashes(*of)) for of in (("feddf", 15), ("fedavg", 15), ("feddf", 1))] == [3, 1, 1]


def test_a_benchmark_goes_seed_by_seed():
    spec = Spec.from_json({"kind": "one-round", "partitions": "dirichlet:1,classes:20", "seeds": 2, "methods": "feddf"})
    assert [(c.config.seed, c.config.partition) for c in spec.cells()] == [
        (0, "dirichlet:1"),
        (0, "classes:20"),
        (1, "dirichlet:1"),
        (1, "classes:20"),
    ]
    assert len(spec.groups()) == 4
    assert Spec.from_json({"kind": "one-round", "seeds": "1,2"}).seeds == (1, 2)
    assert Spec.from_json({"kind": "one-round", "seeds": "0-4"}).seeds == (0, 1, 2, 3, 4)
    assert Spec.from_json({"kind": "one-round", "seeds": ["3-4", 9, "0"]}).seeds == (3, 4, 9, 0)
    assert [cell.method for cell in Spec.from_json({"kind": "one-round"}).groups()[0]] == ONE_ROUND


def test_the_papers_partitions_are_of_its_data_and_others_have_their_presets():
    def partitions(**values):
        return Spec.from_json({"kind": "one-round", **values}).partitions

    assert partitions() == partitions(preset="best") == ("dirichlet:1", "dirichlet:0.05", "classes:30", "classes:20")
    assert partitions(preset="quick") == ("dirichlet:0.3",)
    assert partitions(settings={"dataset": "fashion-mnist"}) == ("dirichlet:0.05",)


def test_one_partition_has_one_name_however_it_is_written():
    spec = Spec.from_json({"kind": "one-round", "partitions": "dirichlet:1.0,dirichlet:1,classes:020,dirichlet:0.05"})
    assert spec.partitions == ("dirichlet:1", "classes:20", "dirichlet:0.05")


def test_a_model_of_yours_is_known_by_its_code(tmp_path):
    file = tmp_path / "nets.py"
    net = (
        "from torch import nn\n\ndef Large(classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear({}, classes))\n"
    )
    mine = [f"{file}:Large"]

    def cells():
        return (
            cell("feddf", server_model=mine[0]),
            cell("feddf", client_models=mine),
            cell("fedavg", parameter_model=mine[0]),
        )

    file.write_text(net.format(4))
    hashes = [c.hash for c in cells()]
    file.write_text(f"# A comment.\n{net.format(4)}")
    assert [c.hash for c in cells()] == hashes
    file.write_text(net.format(256))
    assert not {c.hash for c in cells()} & set(hashes)
    assert cells()[0].clients == cell("feddf").clients  # its clients are others' too


def test_a_method_of_yours_is_known_by_its_code(monkeypatch):
    hashes = set()
    for number in (2, 3):
        namespace = {}
        exec(f"N = {number}\n\ndef sharp(knowledge, settings):\n    return N\n", namespace)
        monkeypatch.setitem(METHODS, "sharp", Method("sharp", targets=namespace["sharp"]))
        hashes.add(cell("sharp").hash)
    assert len(hashes) == 2 and "method_code" not in cell("feddf").settings


def test_a_method_that_keeps_a_record_is_one_cell(monkeypatch):
    seen = []
    keeping = Method("sharp", targets=lambda knowledge, settings: seen.append(settings))
    monkeypatch.setitem(METHODS, "sharp", keeping)
    one = cell("sharp")
    before = one.hash, one.clients
    seen.append("what came")
    assert (one.hash, one.clients) == before


def test_a_control_hears_nobody_so_it_has_no_defence():
    defended = replace(PAPER, method="fedol", defence="trust")
    assert Cell.of(CEILING, defended).hash == Cell.of(CEILING, PAPER).hash
    with pytest.raises(InputError, match="'local' has no such clients"):
        Cell.of("local", defended)


def test_what_is_named_twice_is_computed_once():
    twice = {"partitions": "iid,iid", "seeds": "1,1", "methods": "feddf,feddf,mixture,fedhkt-k"}
    cells = Spec.from_json({"kind": "one-round", **twice}).cells()
    assert [cell.method for cell in cells] == ["feddf", "fedhkt-k"]


def test_all_methods_may_have_more_beside_them():
    cells = Spec.from_json({"kind": "one-round", "partitions": "iid", "methods": "all,fedol+,fedol"}).cells()
    assert [cell.method for cell in cells] == [*ONE_ROUND, "fedol+"]


def test_an_ablation_is_variants_side_by_side_on_the_same_data():
    variants = [{}, {"settings": {"patch": "none"}}, {"settings": {"epochs": 5}, "methods": "ensemble"}]
    values = {"kind": "one-round", "preset": "best", "partitions": "iid", "methods": "pooled", "variants": variants}
    (group,) = Spec.from_json(values).groups()
    assert [(cell.method, cell.config.patch, cell.config.epochs) for cell in group] == [
        ("pooled", "cutmix", 100),
        ("pooled", "none", 100),
        ("ensemble", "cutmix", 5),
    ]
    assert group[0].clients == group[1].clients != group[2].clients


def test_a_grid_is_every_combination_and_clients_share_what_they_can():
    grid = {"tau": [0.1, 0.5], "clients": [4, 8]}
    values = {"kind": "one-round", "preset": "quick", "partitions": "iid", "methods": "fedol,feddf", "grid": grid}
    groups = Spec.from_json(values).groups()
    assert [{cell.config.clients for cell in group} for group in groups] == [{4}, {8}]
    for group in groups:
        assert len({cell.clients for cell in group}) == 1  # trained once for every τ
        assert len({cell.hash for cell in group}) == 3  # FedDF does not know τ
    single = Spec.from_json({**values, "grid": {"tau": [0.1]}}).cells()
    plain = Spec.from_json({**values, "grid": {}, "settings": {"tau": 0.1}}).cells()
    assert [cell.hash for cell in single] == [cell.hash for cell in plain]


def test_equal_compute_gives_one_pass_methods_fedols_epochs():
    spec = Spec.from_json({"kind": "one-round", "equal_compute": True, "partitions": "classes:20"})
    epochs = {c.method: c.config.distillation.recipe.epochs for c in spec.cells()}
    assert epochs["feddf"] == epochs["fedhkt-k"] == epochs["fedkt"] == 500
    assert epochs["fedol"] == epochs["fedol-reinit"] == 50
    other = Spec.from_json(
        {"kind": "one-round", "equal_compute": True, "settings": {"server_epochs": 7, "iterations": 3}}
    )
    longer = {c.method: c.config.distillation.recipe.epochs for c in other.cells()}
    assert (longer["feddf"], longer["fedol"]) == (21, 7)  # the server's, not the clients' 50
    (fedkt,) = (c for c in spec.cells() if c.method == "fedkt")
    assert fedkt.clients == cell("fedkt", partition="classes:20").clients  # the dear part is not trained again


def test_a_new_method_is_kept_by_all_that_it_may_heed(monkeypatch):
    monkeypatch.setitem(METHODS, "new", Method("new", targets=METHODS["feddf"].targets))
    settings = {"tau": 0.5, "rho": 0.3, "rho_step": 0.1, "iterations": 3}
    matters = {name: cell("new").hash != cell("new", **{name: value}).hash for name, value in settings.items()}
    assert matters == {"tau": True, "rho": True, "rho_step": True, "iterations": False}


def test_a_new_method_that_iterates_says_so(monkeypatch):
    monkeypatch.setitem(METHODS, "new", Method("new", targets=METHODS["fedol"].targets, iterates=True))
    assert cell("new").hash != cell("new", iterations=3).hash
    spec = Spec.from_json({"kind": "one-round", "equal_compute": True, "partitions": "iid", "methods": "new,feddf"})
    assert [c.config.distillation.recipe.epochs for c in spec.cells()] == [50, 500]


def test_rounds_have_fedol_as_one_round():
    spec = Spec.from_json({"kind": "rounds", "rounds": 4, "partitions": "classes:20"})
    assert {c.method: c.rounds for c in spec.cells()} == {
        **dict.fromkeys(("fedavg", "fedprox", "feddf", "fedhkt", "fedet", "mine"), 4),
        "fedol": 1,
    }


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "no benchmark"),
        (
            {"kind": "one-round", "variants": [{"settings": {"public": 9}}]},
            "on the same data, so 'public' cannot differ",
        ),
        ({"kind": "one-round", "variants": [{"patch": "none"}]}, "no entry of a variant 'patch'"),
        ({"kind": "one-round", "variants": []}, "nothing to compute"),
        ({"kind": "one-round", "variants": 2}, "variants must be a list, but is 2"),
        ({"kind": "one-round", "variants": ["patch"]}, "a variant must be a JSON object"),
        (
            {"kind": "one-round", "variants": [{"settings": ["patch"]}]},
            "the settings of a variant must be a JSON object",
        ),
        ({"kind": "one-round", "variants": [{"methods": []}]}, "nothing to compute"),
        ({"kind": "one-round", "variants": [{"methods": 5}]}, "or a list, not 5"),
        ({"kind": "one-round", "variants": [{}, {"settings": {"width": 16}}]}, "Variant 2 changes nothing"),
        ({"kind": "one-round", "variants": [{"settings": {"method": "fedavg"}}]}, "has 'methods' beside its settings"),
        ({"kind": "one-round", "methods": "feddf", "variants": [{}, {"settings": {"tau": 1}}]}, "Variant 2 changes"),
        ({"kind": "one-round", "settings": None}, "settings must be a JSON object"),
        ({"kind": "one-round", "partitions": 5}, "or a list, not 5"),
        *(({"kind": "one-round", "methods": wrong}, "or a list, not") for wrong in ([1], [["feddf"]])),
        *(({"kind": "one-round", "partitions": wrong}, "or a list, not") for wrong in ([1], [None], [["iid"]])),
        *(
            ({"kind": "one-round", "seeds": wrong}, "seeds must be")
            for wrong in (None, [[1]], [0.5], [None], True, -1, "1,-1")
        ),
        ({"kind": "one-round", "equal_compute": "false"}, "equal_compute must be true or false, but is 'false'"),
        *(
            ({"kind": "one-round", "settings": {name: value}}, f"has '{name}s' beside its settings")
            for name, value in (("seed", 5), ("method", "fedol"), ("partition", "classes:20"))
        ),
        (
            {"kind": "one-round", "methods": "fedol", "variants": [{"settings": {"tau": t}} for t in (1, 1.0)]},
            "Variant 2",
        ),
        ({"kind": "one-round", "settings": {"codec": 5}}, "'codec' must be text, but is 5"),
        ({"kind": "rounds", "feedback_epochs": True}, "feedback_epochs must be a whole number, but is True"),
        ({"kind": "rounds", "rounds": "many"}, "rounds must be a whole number, but is 'many'"),
        ({"kind": "two-round"}, "did you mean 'one-round'"),
        ({"kind": "one-round", "methods": "feddff"}, "did you mean 'feddf"),
        ({"kind": "one-round", "partitions": "dirichlet"}, "did you mean"),
        ({"kind": "one-round", "seeds": "x"}, "seeds must be"),
        ({"kind": "one-round", "preset": "papr"}, "did you mean 'paper'"),
        ({"kind": "one-round", "setings": {}}, "did you mean 'settings'"),
        ({"kind": "one-round", "rounds": 5}, "'rounds' belongs to a benchmark of the kind 'rounds'"),
        *(
            ({"kind": "one-round", "seeds": wrong}, "seeds must be")
            for wrong in ("4-1", "1-", "-3", "0-2000", "1-2-3", ["a-b"])
        ),
        ({"kind": "one-round", "grid": [1]}, "grid must be a JSON object"),
        ({"kind": "one-round", "grid": {"tau": 1}}, "must be a list of one or more"),
        ({"kind": "one-round", "grid": {"method": ["fedol"]}}, "has 'methods' beside its settings"),
        ({"kind": "one-round", "grid": {"taau": [1]}}, "did you mean 'tau'"),
        ({"kind": "one-round", "methods": "feddf", "grid": {"tau": [1, 2]}}, "None of these methods depends on tau"),
        ({"kind": "one-round", "seeds": 20240101}, "to name this one, write '20240101,'"),
        ({"kind": "one-round", "settings": {"widht": 3}}, "did you mean 'width'"),
        ({"kind": "rounds", "rounds": 1}, "at least 2"),
        *(
            ({"kind": "rounds", "methods": name}, f"'{name}' has one round only; it belongs to `fedol bench one-round`")
            for name in ("fedkt", "fedavg-bn", "local", "ceiling")
        ),
        ({"kind": "rounds", "methods": "x"}, "known are: fedavg, feddf, feddf-probs, fedet,"),
        ({"kind": "rounds", "feedback_epochs": 0}, "feedback_epochs must be at least 1"),
        ({"kind": "rounds", "feedback": "techer"}, "did you mean 'teacher'"),
        ({"kind": "one-round", "seeds": 0}, "nothing to compute"),
        ({"kind": "one-round", "methods": ","}, "nothing to compute"),
        ({"kind": "one-round", "partitions": []}, "nothing to compute"),
    ],
)
def test_what_is_wrong_with_a_benchmark_is_said_in_a_sentence(values, words):
    with pytest.raises(InputError, match=words):
        Spec.from_json(values)


def test_clients_beside_a_development_split_have_less_to_train_on():
    quick = configure("quick", overrides={"device": "cpu"})
    scenario = Scenario(quick, load("digits"))
    private = len(scenario.dataset.train) - quick.public
    whole, rest = (client_work(Cell.of("feddf", replace(quick, development=n)), scenario) for n in (0, 100))
    assert rest / whole == pytest.approx((private - 100) / private)
