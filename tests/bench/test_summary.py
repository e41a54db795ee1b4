"""From cells to tables: made-up results in, the numbers of the report out."""

import pytest

from fedol.bench import paper, summary
from fedol.bench.sheets import has, one_round, over_fedol, rounds
from fedol.methods import METHODS
from fedol.report import plots
from fedol.report.bench_pages import sheets

BASE = {"dataset": "cifar100", "width": 64, "public": 5000, "batch_size": 64, "lr": 1e-3}
CLIENTS = {"clients": 10, "epochs": 50, "sends": "predictions"}
CLIENTS |= {"client_models": ["resnet11", "resnet20"], "codec": "float32"}


def result(method, accuracy, partition="dirichlet:0.05", seed=0, history=(), **settings):
    found = {**BASE, **CLIENTS, "method": method, "partition": partition, "seed": seed, **settings}
    return {"method": method, "seed": seed, "settings": found, "accuracy": accuracy, "history": list(history)}


def test_mean_spread_and_the_papers_number():
    cells = [result("feddf", a, seed=s, server_epochs=50) for s, a in enumerate((0.14, 0.16, 0.15))]
    (table,) = summary.tables(cells)
    entry = table["rows"][0]["cells"]["dirichlet:0.05"]
    assert (entry["mean"], entry["n"]) == (pytest.approx(0.15), 3) and entry["std"] == pytest.approx(0.01)
    assert entry["paper"] == {"mean": pytest.approx(0.148), "std": pytest.approx(0.014)}
    assert entry["difference"] == pytest.approx(0.002)
    (record,) = one_round(table, 1).records  # in %, as the tables
    assert (record["accuracy"], record["std"], record["n"]) == (15.0, 1.0, 3)
    assert (record["paper"], record["paper_std"], record["difference"]) == (14.8, 1.4, 0.2)


def test_the_targets_are_those_of_the_last_iteration():
    history = [{"diagnostics": {"target_accuracy": accuracy}} for accuracy in (0.2, 0.4)]
    (table,) = summary.tables([result("fedol", 0.3, history=history, server_epochs=50, iterations=2)])
    assert table["rows"][0]["cells"]["dirichlet:0.05"]["target_accuracy"] == 0.4


def test_rows_and_tables_that_differ_do_not_look_the_same():
    cells = [result("feddf", 0.1, server_epochs=50, server_model=model) for model in ("resnet20", "resnet56")]
    cells += [result("mine", 0.1, server_epochs=50), result("mine", 0.1, server_epochs=50, defence="trust,cap")]
    cells += [result("local", 0.1, client_models=models) for models in (["cnn"], ["cnn", "mlp"])]
    (table,) = summary.tables(cells)
    assert [row["label"] for row in table["rows"]] == [
        "Local, client_models cnn",
        "Local, client_models cnn and mlp",
        "FedDF (50 epochs), server_model resnet20",
        "FedDF (50 epochs), server_model resnet56",
        "MinE (50 epochs)",
        "MinE (50 epochs, defence trust,cap)",
    ]
    cells = [result("local", 0.1, lr=lr, batch_size=size) for lr, size in ((1e-3, 64), (3e-3, 64), (1e-3, 128))]
    titles = {one_round(table, 1).title.rpartition(", ")[2] for table in summary.tables(cells)}
    assert titles == {"50 epochs", "learning rate 0.003", "batches of 128"}


def test_partitions_of_others_come_after_the_papers():
    names = ["growing:x@123456789abc", "classes:20", "sites", "dirichlet:0.05", "iid", "dirichlet:1"]
    (table,) = summary.tables([result("feddf", 0.1, partition=name, server_epochs=50) for name in names])
    ours = ["iid", "dirichlet:1", "dirichlet:0.05", "classes:20"]
    assert table["partitions"] == [*ours, "sites", "growing:x@123456789abc"]


def sheet(cells):
    (table,) = summary.tables(cells)
    return one_round(table, 1)


def test_the_papers_columns_stand_only_where_it_has_numbers():
    ours = [result("feddf", 0.15, partition, server_epochs=50) for partition in ("dirichlet:0.05", "dirichlet:0.3")]
    page = sheet(ours)
    assert page.columns == ["", "dirichlet:0.3", "dirichlet:0.05", "paper", "difference"]
    assert page.rows == [["FedDF (50 epochs)", "15.0", "15.0", "14.8 ± 1.4", "+0.2"]]
    assert "n = 1 seed;" in page.note
    assert "paper" not in sheet(ours[1:]).note


def test_the_number_of_seeds_is_in_the_cells_only_where_they_differ():
    two = [result("feddf", a, "iid", seed=s, server_epochs=50) for s, a in enumerate((0.14, 0.16))]
    assert sheet(two).rows[0][1] == "15.0 ± 1.4" and "over n = 2 seeds" in sheet(two).note
    mixed = sheet([*two, result("feddf", 0.2, "dirichlet:0.3", server_epochs=50)])
    assert set(mixed.rows[0][1:]) == {"15.0 ± 1.4 (n = 2)", "20.0"} and "no ± where n = 1" in mixed.note


def test_local_says_how_far_its_clients_lie_apart():
    cells = [result("local", 0.1, p, seed=s) for p in ("iid", "classes:20") for s in (0, 1)]
    for cell, spread in zip(cells, (0.01, 0.03, 0.05, 0.05), strict=True):
        cell["over_clients"] = {"mean": 0.1, "std": spread, "n": 10}
    assert "over the clients of a seed: 2.0, 5.0." in sheet(cells).note
    assert "clients" not in sheet([result("feddf", 0.15, "iid", server_epochs=50)]).note


def test_above_fedol_counts_the_seeds_that_both_have():
    """FedOL's bad luck with seed 0, which FedOL+ does not have, is not FedOL+'s merit."""
    loop = {"server_epochs": 50, "iterations": 10}
    cells = [result("fedol", a, seed=s, **loop) for s, a in ((0, 0.2), (3, 0.3), (4, 0.32))]
    cells += [result("fedol+", a, seed=s, **loop) for s, a in ((3, 0.34), (4, 0.34), (5, 0.9))]
    cells += [result("mine", 0.1, seed=3, server_epochs=50), result("mine", 0.5, "iid", server_epochs=50)]
    (table,) = summary.tables(cells)
    found = {row["method"]: row["cells"]["dirichlet:0.05"]["over_fedol"] for row in table["rows"]}
    assert found["fedol"] is None
    both = {"mean": pytest.approx(0.03), "std": pytest.approx(0.02 / 2**0.5), "n": 2, "other_clients": []}
    assert found["fedol+"] == both
    assert found["mine"] == {"mean": pytest.approx(-0.2), "std": None, "n": 1, "other_clients": []}
    page = over_fedol(table, 1)
    assert page.columns == ["", "iid", "dirichlet:0.05"]
    assert page.note.startswith("Test accuracy: points above FedOL (10 × 50 epochs)")
    assert page.rows == [["MinE (50 epochs)", "", "-20.0"], ["FedOL+ (10 × 50 epochs)", "", "+3.0 ± 1.4 (n = 2)"]]
    (apart,) = summary.tables([cell for cell in cells if cell["seed"] in (0, 5)])
    assert not has(apart, "over_fedol")


def test_points_above_a_fedol_that_other_clients_taught_are_marked():
    """Folders of two machines merge, and a seed's clients may differ between them."""
    loop, sent = {"server_epochs": 50, "iterations": 10}, {"sends": "predictions", "client_models": ["mlp"]}

    def cell(method, seed, clients, **settings):
        records = [{"client": k, "accuracy": a, "seconds": seed} for k, a in enumerate(clients)]
        return {**result(method, 0.3, seed=seed, **{**sent, **settings}), "clients": records}

    cells = [cell("fedol", s, (0.1, 0.2), **loop) for s in (0, 1)]
    cells += [cell("feddf", 0, (0.1, 0.2), server_epochs=50), cell("feddf", 1, (0.1, 0.21), server_epochs=50)]
    cells += [cell("mine", s, (0.1, 0.2 + 0.0099 * s), server_epochs=50) for s in (0, 1)]  # hardly others
    cells += [cell("fedavg", 0, (0.3, 0.4), sends="weights"), result("ensemble", 0.4, seed=0, **sent)]
    (table,) = summary.tables(cells)
    for page in (one_round(table, 1), over_fedol(table, 1)):
        assert [row[0] for row in page.rows if row[1].endswith("†")] == ["FedDF (50 epochs)"]
        assert page.note.endswith("a point or more apart.") and page.note.count("† With a seed whose clients") == 1
    assert [record["other_clients"] for record in page.records] == ["", "1", "", ""]
    # One better and one worse are others, too; other models or codecs are meant to be.
    cells = [cell("fedol", 0, (0.1, 0.2), **loop), cell("feddf", 0, (0.12, 0.18), server_epochs=50)]
    cells += [cell("mine", 0, (0.5, 0.6), server_epochs=50, client_models=["cnn"])]
    cells += [cell("fedet", 0, (0.5, 0.6), server_epochs=50, codec="top1")]
    (table,) = summary.tables(cells)
    marked = {row["method"]: row["cells"]["dirichlet:0.05"]["over_fedol"] for row in table["rows"]}
    assert {m: over["other_clients"] for m, over in marked.items() if over} == {"feddf": [0], "mine": [], "fedet": []}


@pytest.mark.parametrize(
    ("settings", "compared"),
    [
        ([(10, 50), (10, 5)], "FedOL (10 × 50 epochs)"),  # the paper's
        ([(1, 500), (10, 50)], "FedOL (10 × 50 epochs)"),
        ([(1, 6), (3, 2)], "FedOL (3 × 2 epochs)"),  # none is the paper's, but a control with one iteration is no FedOL
        ([(3, 2), (3, 4)], None),  # which would it be?
    ],
)
def test_of_several_fedols_one_is_compared_with(settings, compared):
    cells = [result("fedol", 0.3, seed=3, iterations=i, server_epochs=e, tau=0.2) for i, e in settings]
    (table,) = summary.tables([*cells, result("mine", 0.1, seed=3, server_epochs=50)])
    assert table["fedol"] == compared and has(table, "over_fedol") == (compared is not None)
    if compared:
        assert f"points above {compared}," in over_fedol(table, 1).note


def test_of_several_fedols_the_one_with_the_papers_votes_is_compared_with():
    usual = {"iterations": 3, "server_epochs": 2, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
    for change in ({"rho_step": 0.0}, {"rho": 0.2}, {"tau": 0.5, "iterations": 9}):
        cells = [result("fedol", 0.3, **usual), result("fedol", 0.2, **{**usual, **change})]
        (table,) = summary.tables([*cells, result("mine", 0.1, server_epochs=6)])
        assert table["fedol"] == "FedOL (3 × 2 epochs)"


def test_a_comparison_says_what_it_is_of_and_how_many_seeds():
    loop = {"server_epochs": 50, "iterations": 10, "development": 5000}
    cells = [result(m, a, seed=s, **loop) for m, a in (("fedol", 0.3), ("fedol+", 0.29999)) for s in (0, 1)]
    (table,) = summary.tables(cells)
    page = over_fedol(table, 1)
    assert page.rows == [["FedOL+ (10 × 50 epochs)", "+0.0 ± 0.0"]]
    assert page.note.startswith("Accuracy on 5,000 samples held out") and page.note.endswith("over n = 2 seeds.")


def test_longer_training_is_a_row_of_its_own_without_the_papers_number():
    (table,) = summary.tables([result("feddf", 0.2, server_epochs=500), result("feddf", 0.1, server_epochs=50)])
    assert [row["label"] for row in table["rows"]] == ["FedDF (50 epochs)", "FedDF (500 epochs)"]
    assert table["rows"][1]["cells"]["dirichlet:0.05"]["paper"] is None


@pytest.mark.parametrize(
    ("change", "beside"),
    [
        ({}, True),
        ({"server_model": "resnet56"}, True),
        *(
            (change, False)
            for change in (
                {"iterations": 2},
                {"tau": 0.5},
                {"rho": 0.3},
                {"rho_step": 0.0},
                {"patch": "cutmix"},
                {"average": 0.999},
                {"weight_decay": 0.1},
                {"defence": "trust"},
                {"server_model": "resnet11"},
                {"client_models": ["resnet11"]},
                {"codec": "top1"},
            )
        ),
    ],
)
def test_the_papers_number_stands_beside_its_own_fedol_only(change, beside):
    theirs = {"iterations": 10, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
    cells = [result("feddf", 0.1, server_epochs=50), result("fedol", 0.3, server_epochs=50, **{**theirs, **change})]
    _, fedol = sheet(cells).rows
    assert [bool(words) for words in fedol[2:]] == [beside, beside]


@pytest.mark.parametrize(("model", "beside"), [("resnet20", True), ("cnn", False)])
def test_the_papers_fedavg_stands_beside_its_own_model_only(model, beside):
    cells = [result("feddf", 0.1, server_epochs=50), result("fedavg", 0.1, sends="weights", client_models=[model])]
    (words,) = (row for row in sheet(cells).rows if row[0] == "FedAvg")
    assert [bool(word) for word in words[2:]] == [beside, beside]


def test_order_of_rows_and_partitions_is_the_papers():
    cells = [result("fedol", 0.3, "classes:20", server_epochs=50, iterations=10, tau=0.2, rho=0.1, rho_step=0.05)]
    cells += [result("local", 0.1, p) for p in ("classes:20", "dirichlet:0.05", "classes:30", "dirichlet:1")]
    (table,) = summary.tables(cells)
    assert table["partitions"] == ["dirichlet:1", "dirichlet:0.05", "classes:30", "classes:20"]
    assert [row["label"] for row in table["rows"]] == ["Local", "FedOL (10 × 50 epochs)"]


def test_another_width_is_another_table_and_the_ceiling_stands_in_each_of_its_own():
    ceiling = {"method": "ceiling", "seed": 0, "accuracy": 0.5, "history": []}
    ceiling["settings"] = {**BASE, "method": "ceiling", "seed": 0, "server_epochs": 50}
    wide = [result("local", 0.1), result("local", 0.1, "classes:20"), ceiling]
    tables = summary.tables([*wide, result("local", 0.2, width=16)])
    assert [table["settings"]["width"] for table in tables] == [64, 16]  # the largest first
    assert set(tables[0]["rows"][1]["cells"]) == {"dirichlet:0.05", "classes:20"} and len(tables[1]["rows"]) == 1


def test_a_ceiling_without_clients_beside_it_has_a_table():
    alone = result("ceiling", 0.5, server_epochs=50)
    for name in ("partition", *CLIENTS):
        del alone["settings"][name]
    page = sheet([alone])
    assert page.title == "One round: cifar100, width 64, 5,000 public samples"
    assert (page.columns, page.rows) == (["", "any partition"], [["Server on true public labels (50 epochs)", "50.0"]])
    assert sheet([alone, result("local", 0.1)]).columns[1] == "dirichlet:0.05"  # one table for both


def test_the_figure_says_when_a_baseline_passes_fedol():
    history = [{"round": n, "accuracy": a} for n, a in enumerate((0.01, 0.2, 0.35, 0.4), 1)]
    settings = {"server_epochs": 50, "iterations": 10, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
    cells = [result("fedavg", 0.4, history=history, rounds=4), result("fedol", 0.3, **settings)]
    (panel,) = summary.figures(cells)
    (line,) = panel["lines"]
    assert line["passes_fedol"] == 3 and [p["mean"] for p in line["rounds"]] == [0.01, 0.2, 0.35, 0.4]
    assert panel["fedol"]["mean"] == 0.3 and panel["paper_fedol"] == pytest.approx(0.298)
    assert len(line["paper"]) == 15
    assert summary.first_above([0.1, 0.2, 0.3], 0.2) == 2  # at the level is past it
    assert summary.first_above([0.1, 0.3, 0.2, 0.4], 0.25) == 2  # the first time
    assert rounds(panel, 1).rows[0] == ["FedOL, its one round", "30.0", "", "", "", ""]
    assert rounds(panel, 1).rows[2][-1] == "8"  # the paper's, of which four rounds are shown
    assert rounds(panel, 1).note == "Test accuracy in %, n = 1 seed. FedOL's one round in the paper: 29.8 %."
    for change in ({"iterations": 2}, {"tau": 0.5}):
        (panel,) = summary.figures([cells[0], result("fedol", 0.3, **{**settings, **change})])
        assert panel["paper_fedol"] is None
        assert rounds(panel, 1).rows[2][-1] == ""  # the paper's FedAvg passes a FedOL that is not shown here
    longer = result("feddf", 0.4, history=history, rounds=4, server_epochs=500)
    assert summary.figures([longer])[0]["lines"][0]["paper"] is None
    for cell in cells:
        cell["settings"]["development"] = 5000  # the paper's curves are on the test set
    (panel,) = summary.figures(cells)
    assert panel["paper_fedol"] is None and panel["lines"][0]["paper"] is None
    assert rounds(panel, 1).note.startswith("Accuracy on 5,000 samples held out")


def test_the_figure_shows_the_spread_over_seeds_and_names_the_paper_only_where_it_is(monkeypatch, tmp_path):
    def cells(**settings):
        curves_of = {0: (0.1, 0.2, 0.3), 1: (0.2, 0.4, 0.3)}
        histories = {s: [{"round": n, "accuracy": a} for n, a in enumerate(c, 1)] for s, c in curves_of.items()}
        once = {"server_epochs": 50, "iterations": 10, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
        found = [result("fedavg", 0.3, seed=s, history=h, rounds=3, **settings) for s, h in histories.items()]
        return [*found, *(result("fedol", a, seed=s, **once, **settings) for s, a in enumerate((0.2, 0.3)))]

    figures = []
    monkeypatch.setattr(plots, "save", lambda figure, path: figures.append(figure))
    for panels in (summary.figures(cells()), summary.figures(cells(dataset="digits"))):
        plots.rounds_figure(panels, tmp_path / "rounds.png")
    other = result("fedol", 0.3, server_epochs=50, iterations=2, tau=0.2, rho=0.1, rho_step=0.05)
    alone = summary.figures([*(cell for cell in cells() if cell["method"] != "fedol"), other])
    assert alone[0]["paper_fedol"] is None  # not this FedOL's, but the baselines' curves are drawn
    plots.rounds_figure(alone, tmp_path / "rounds.png")
    captions = [figure.get_supxlabel() for figure in figures]
    assert captions == ["solid: ours; dotted: the paper's", "", "solid: ours; dotted: the paper's"]
    axes = figures[1].axes[0]
    assert axes.get_title() == "dirichlet:0.05, width 64, 50 epochs a round"
    (band,), (level,) = axes.collections, axes.patches
    curve, line = band.get_datalim(axes.transData).intervaly, level.get_bbox().intervaly
    assert tuple(curve) == pytest.approx((15 - 100 * 0.1 / 2**0.5, 30 + 100 * 0.2 / 2**0.5))
    assert tuple(line) == pytest.approx((25 - 100 * 0.1 / 2**0.5, 25 + 100 * 0.1 / 2**0.5))


def test_a_figure_drawn_again_is_the_same_file(tmp_path):
    history = [{"round": n, "accuracy": 0.1 * n} for n in (1, 2)]
    panels = summary.figures([result("fedavg", 0.2, dataset="digits", history=history, rounds=2)])
    for ending in ("svg", "png"):
        for name in "ab":
            plots.rounds_figure(panels, tmp_path / f"{name}.{ending}")
        first, second = (tmp_path / f"{name}.{ending}" for name in "ab")
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.filterwarnings("error")
def test_long_names_leave_room_for_the_curves(monkeypatch, tmp_path):
    history = [{"round": 1, "accuracy": 0.1}, {"round": 2, "accuracy": 0.2}]
    names = ("feddf", "fedet", "fedhkt", "fedhkt-k", "mine", "pooled", "pooled-uniform", "fedol+")
    odd = {"server_epochs": 500, "feedback_epochs": 5, "feedback": "teacher", "patch": "cutmix", "defence": "cap"}
    cells = [result(name, 0.2, history=history, rounds=2, **odd) for name in names]
    drawn = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    plots.rounds_figure(summary.figures(cells), tmp_path / "rounds.png")
    (figure,) = drawn
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_position().height > 0.4
    legend, whole = axes.get_legend().get_window_extent(), figure.bbox
    assert whole.x0 <= legend.x0 and legend.x1 <= whole.x1 and whole.y0 <= legend.y0


def test_rounds_say_how_many_seeds_each_curve_has_where_they_differ():
    def fed(method, seeds):
        history = [{"round": n, "accuracy": 0.1 * n} for n in (1, 2)]
        return [result(method, 0.2, dataset="digits", seed=s, history=history, rounds=2) for s in range(seeds)]

    for seeds, labels, over in (
        ((2, 2), ["FedAvg", "FedProx (μ = 0.01)"], "mean ± standard deviation over n = 2 seeds"),
        (
            (2, 1),
            ["FedAvg (n = 2)", "FedProx (μ = 0.01) (n = 1)"],
            "mean ± standard deviation over n seeds (no ± where n = 1)",
        ),
    ):
        prox = [{**cell, "settings": {**cell["settings"], "mu": 0.01}} for cell in fed("fedprox", seeds[1])]
        (panel,) = summary.figures([*fed("fedavg", seeds[0]), *prox])
        sheet = rounds(panel, 1)
        assert [row[0] for row in sheet.rows] == labels
        assert sheet.note == f"Test accuracy in %, {over}. FedOL: not run."


def test_the_papers_table_is_complete():
    for partition in ("dirichlet:1", "dirichlet:0.05", "classes:30", "classes:20"):
        rows = paper.numbers()["one_round"]["rows"][partition.replace(":", "-")]
        found = {record.paper: paper.one_round("cifar100", partition, name) for name, record in METHODS.items()}
        assert found.keys() - {""} == rows.keys() and not any(value is None for name, value in found.items() if name)
    assert paper.one_round("digits", "dirichlet:1", "fedol") is None
    assert paper.one_round("cifar100", "dirichlet:1", "feddf-probs") is None
    assert paper.one_round("cifar100", "dirichlet:1", "fedol") == (pytest.approx(0.372), pytest.approx(0.017))


def test_curves_of_other_settings_are_not_mixed():
    def curve(length, **settings):
        history = [{"round": n, "accuracy": 0.1 * length} for n in range(1, length + 1)]
        return result("feddf", 0.1 * length, history=history, rounds=length, server_epochs=50, **settings)

    cells = [curve(2, feedback_epochs=20), curve(3, feedback_epochs=20), curve(2, feedback_epochs=5)]
    cells.append(curve(4, feedback_epochs=20, feedback="teacher"))
    (panel,) = summary.figures(cells)
    assert {line["label"]: len(line["rounds"]) for line in panel["lines"]} == {
        "FedDF (50 epochs)": 3,
        "FedDF (50 epochs, 5 on feedback)": 2,
        "FedDF (50 epochs, feedback of the teacher)": 4,
    }
    assert panel["fedol"] is None and all(line["passes_fedol"] is None for line in panel["lines"])
    page = rounds(panel, 1)
    ours = [row for row in page.rows if "paper" not in row[0]]
    assert [row[-1] for row in ours] == [""] * 3 and "FedOL: not run" in page.note  # nobody failed to pass it
    # The paper's curve stands there once, and not beside the teacher's feedback, which is not the paper's.
    assert [bool(line["paper"]) for line in panel["lines"]] == [True, False, False]
    assert [row[0] for row in page.rows if "paper" in row[0]] == ["FedDF, paper"]


def test_curves_of_one_name_say_in_what_they_differ():
    history = [{"round": 1, "accuracy": 0.1}, {"round": 2, "accuracy": 0.2}]
    cells = [
        result("feddf", 0.2, history=history, rounds=2, server_epochs=50, server_model=model)
        for model in ("resnet20", "resnet56")
    ]
    (panel,) = summary.figures(cells)
    labels = ["FedDF (50 epochs), server_model resnet20", "FedDF (50 epochs), server_model resnet56"]
    assert [line["label"] for line in panel["lines"]] == labels


def test_fedol_stands_beside_the_rounds_with_their_epochs():
    other = {"iterations": 10, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
    cells = [result("feddf", 0.2, history=[{"round": 1, "accuracy": 0.2}] * 2, rounds=2, server_epochs=50)]
    cells += [result("fedol", 0.3, server_epochs=50, **other), result("fedol", 0.4, server_epochs=10, **other)]
    assert summary.figures(cells)[0]["fedol"]["mean"] == 0.3
    cells[0]["settings"]["server_epochs"] = 10
    assert summary.figures(cells)[0]["fedol"]["mean"] == 0.4


def test_a_curve_passes_with_its_mean():
    histories = [[{"round": n, "accuracy": a} for n, a in enumerate(run, 1)] for run in ((0.25, 0.5), (0.37, 0.5))]
    cells = [result("fedavg", 0.5, seed=s, history=history, rounds=2) for s, history in enumerate(histories)]
    cells += [result("fedol", 0.3, seed=s, server_epochs=50, iterations=10) for s in (0, 1)]
    assert summary.figures(cells)[0]["lines"][0]["passes_fedol"] == 1


def test_the_figure_and_the_table_compare_with_the_same_fedol():
    votes = {"server_epochs": 50, "rho": 0.1, "rho_step": 0.05}
    cells = [result("feddf", 0.2, history=[{"round": 1, "accuracy": 0.2}] * 2, rounds=2, server_epochs=50)]
    cells += [
        result("fedol", 0.42, iterations=10, tau=0.2, **votes),
        result("fedol", 0.11, iterations=20, tau=5, **votes),
    ]
    assert summary.tables(cells)[0]["fedol"] == "FedOL (10 × 50 epochs)"
    (panel,) = summary.figures(cells)
    assert panel["fedol"]["mean"] == 0.42 and panel["lines"][0]["passes_fedol"] is None
    # Of two that no table prefers there is still a level: FedOL was run.
    cells[1:] = [
        result("fedol", a, iterations=10, tau=0.2, patch=p, **votes) for a, p in ((0.1, "cutout"), (0.3, "cutmix"))
    ]
    assert summary.tables(cells)[0]["fedol"] is None and summary.figures(cells)[0]["fedol"]["mean"] in (0.1, 0.3)


def test_a_table_and_its_comparison_have_one_number():
    votes = {"server_epochs": 50, "iterations": 10, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
    cells = [result("feddf", 0.2, seed=seed, server_epochs=50) for seed in range(3)]  # the largest table, without FedOL
    cells += [result(method, 0.3, width=16, **votes) for method in ("fedol", "fedol+")]
    found = sheets({"one_round": summary.tables(cells), "rounds": [], "cost": []})
    assert [sheet.name for sheet in found] == ["one-round-1", "one-round-2", "over-fedol-2"]


def test_a_curve_of_one_seed_is_held_against_fedol_with_that_seed():
    settings = {"server_epochs": 50, "iterations": 10, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
    history = [{"round": n, "accuracy": a} for n, a in enumerate((0.1, 0.25), 1)]
    cells = [result("feddf", 0.25, history=history, rounds=2, server_epochs=50)]
    cells += [result("fedol", a, seed=s, **settings) for s, a in enumerate((0.3, 0.1))]
    (panel,) = summary.figures(cells)
    assert panel["fedol"]["mean"] == 0.3 and panel["lines"][0]["passes_fedol"] is None
