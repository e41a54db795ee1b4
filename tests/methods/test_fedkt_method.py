"""FedKT: subsets, teachers' votes, students, consistent voting, and what is sent."""

import pytest
import torch

from fedol.config import configure
from fedol.data import Images, Normalisation
from fedol.errors import FedolError, InputError
from fedol.federation.scenario import Scenario, Scheme
from fedol.files import write_tensors
from fedol.knowledge import Knowledge
from fedol.knowledge.task import Task
from fedol.methods import Distillation, find
from fedol.methods.fedkt import Ensembles, load_labels, save_labels, students, trainings
from fedol.methods.sides import one_hot
from fedol.model import Architecture
from fedol.training import Fit, Job, Recipe, drive

CPU, PLAIN = torch.device("cpu"), Normalisation((0.0,), (1.0,))
BLANK = Images(torch.zeros(4, 1, 4, 4, dtype=torch.uint8))
ARCHITECTURE = Architecture("mlp", ("a", "b", "c"), (1, 4, 4), 2, PLAIN)


def students_of(client, *labels):
    hard = [one_hot(torch.tensor(row), 3) for row in labels]
    return [Knowledge.from_probabilities(p.float(), client=client) for p in hard]


def voted(*knowledge):
    answer = find("fedkt").teacher([item for group in knowledge for item in group], Distillation()).targets(1, None)
    assert set(answer.soft.unique().tolist()) <= {0.0, 1.0}
    return answer.soft.argmax(1).tolist(), answer.record["fallback"]


def test_a_client_counts_only_where_its_students_agree():
    # Sample 0: clients 0 and 1 contradict themselves, client 2 says 2 twice and wins against four plain votes for 1.
    # Sample 1: clients 0 and 1 say 1 consistently (4 votes) against client 2's 0 (2 votes).
    labels, fallback = voted(
        students_of("0", [1, 1], [0, 1]), students_of("1", [1, 1], [0, 1]), students_of("2", [2, 0], [2, 0])
    )
    assert labels == [2, 1] and fallback == 0.0


def test_without_any_consistent_client_the_plain_majority_decides():
    labels, fallback = voted(
        students_of("0", [1, 0], [2, 0]), students_of("1", [2, 0], [0, 0]), students_of("2", [1, 0], [2, 0])
    )
    assert labels == [2, 0] and fallback == 0.5


def test_a_tie_goes_to_the_lowest_class():
    assert voted(students_of("0", [2], [2]), students_of("1", [1], [1]))[0] == [1]
    # Who contradicts himself does not decide it either.
    assert voted(students_of("0", [2], [2]), students_of("1", [1], [1]), students_of("2", [2], [0]))[0] == [1]


def private(count=23):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 1, 4, 4), dtype=torch.uint8, generator=generator)
    return Job("client 0", ARCHITECTURE.build(1), Images(images), torch.arange(count) % 3, PLAIN, Recipe(1, 8), seed=5)


def jobs_of(job, ensembles, public):
    """Drive the client side by hand; nothing is trained."""
    process, seen = students(job, ARCHITECTURE, public, CPU, ensembles), []
    try:
        wanted = next(process)
        while True:
            seen.append(wanted)
            wanted = process.send(Fit(wanted, (0.0,), 1.0, "none"))
    except StopIteration as end:
        return seen, end.value


def test_every_partition_uses_every_sample_once_and_partitions_differ():
    public = Images(torch.zeros(6, 1, 4, 4, dtype=torch.uint8))
    job = private()
    seen, (taught, seconds) = jobs_of(job, Ensembles(), public)  # s = 2 partitions of t = 5, as the method is defined
    assert [len(j.inputs) for j in seen] == [5, 5, 5, 4, 4, 6, 5, 5, 5, 4, 4, 6]
    assert seconds == 12.0 and [j.model for j in (seen[5], seen[11])] == taught
    for part in (seen[:5], seen[6:11]):
        together = torch.cat([j.inputs.values for j in part]).flatten(1)
        assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, job.inputs.values.flatten(1).tolist()))
    assert not torch.equal(seen[0].inputs.values, seen[6].inputs.values)
    assert len({j.seed for j in seen}) == 12  # every training shuffles its own way
    starts = {tuple(j.model.state_dict()["head.weight"].flatten().tolist()) for j in seen}
    assert len(starts) == len({id(j.model) for j in seen}) == 12  # and starts from scratch, a student too


def test_students_learn_the_majority_of_their_teachers():
    generator = torch.Generator().manual_seed(3)
    public = Images(torch.randint(0, 256, (200, 1, 4, 4), dtype=torch.uint8, generator=generator))
    seen, _ = jobs_of(private(), Ensembles(2, 3), public)
    for teachers, student in ((seen[:3], seen[3]), (seen[4:7], seen[7])):  # of its own partition
        predictions = torch.stack([j.model(PLAIN(public.values)).argmax(1) for j in teachers])
        majority = [torch.bincount(column, minlength=3).argmax().item() for column in predictions.T]
        assert student.targets.tolist() == majority and student.inputs is public


@pytest.mark.parametrize(("count", "subsets"), [(2, 1), (5, 2), (10, 5)])
def test_a_small_client_has_as_many_teachers_as_leave_each_two_samples(count, subsets):
    seen, _ = jobs_of(private(count), Ensembles(1, 5), BLANK)
    assert len(seen) == subsets + 1 and min(len(j.inputs) for j in seen) >= 2
    assert trainings(count, Ensembles(1, 5)) == len(seen)


def test_a_failed_teacher_is_an_error():
    process = students(private(), ARCHITECTURE, BLANK, CPU)
    first = next(process)
    with pytest.raises(FedolError, match="diverged"):
        process.send(Fit(first, (), 0.0, "none", "client 0 diverged."))


def test_it_trains():
    ((_, (taught, seconds)),) = drive([students(private(), ARCHITECTURE, BLANK, CPU, Ensembles(1, 2))], CPU)
    assert len(taught) == 1 and seconds > 0


def test_a_client_sends_what_each_of_its_students_predicts(tmp_path):
    settings = {"clients": 3, "public": 60, "width": 4, "device": "cpu", "epochs": 2, "method": "fedkt"}
    scheme = Scheme.of(here := Scenario(configure(overrides=settings)))
    jobs = {}
    ((_, client),) = drive([scheme.client(1)], CPU, lambda epoch: jobs.setdefault(epoch.job.name, epoch.job))
    students = [jobs[f"client 1 student {part}"].model for part in (1, 2)]
    client.send(tmp_path / "sent")
    sent = torch.stack([k.log_probs.argmax(1) for k in load_labels(tmp_path / "sent", here.task, "client 1")])
    prepare = scheme.architecture(1).prepare
    with torch.no_grad():
        expected = torch.stack(
            [student.eval()(prepare(here.public.batch(slice(None)))).argmax(1) for student in students]
        )
    assert torch.equal(sent, expected) and not torch.equal(sent[0], sent[1])
    assert client.model.module is students[0]


def test_what_is_sent_is_a_byte_per_student_and_sample(tmp_path):
    import numpy as np

    task = Task.of(np.zeros((500, 1, 4, 4), dtype=np.uint8), [str(c) for c in range(3)])
    labels = torch.randint(3, (2, 500))
    save_labels(tmp_path / "a", labels)
    assert 1000 <= (tmp_path / "a").stat().st_size < 1300
    back = list(load_labels(tmp_path / "a", task, "client 4"))
    assert [k.client for k in back] == ["client 4"] * 2
    assert torch.equal(torch.stack([k.log_probs.argmax(1) for k in back]), labels)
    save_labels(tmp_path / "b", torch.randint(3, (2, 400)))
    with pytest.raises(InputError, match="does not answer the task"):
        list(load_labels(tmp_path / "b", task, "client 4"))
    for wrong in (torch.zeros(0, 500, dtype=torch.uint8), torch.full((2, 500), -1, dtype=torch.int32), labels * 1.0):
        write_tensors(tmp_path / "b", {"labels": wrong}, {"kind": "student labels"})
        with pytest.raises(InputError, match="does not answer the task"):
            list(load_labels(tmp_path / "b", task, "client 4"))
    save_labels(tmp_path / "b", torch.full((2, 500), 3))  # one class too many
    with pytest.raises(InputError, match="does not answer the task"):
        list(load_labels(tmp_path / "b", task, "client 4"))
    many = Task.of(np.zeros((500, 1, 4, 4), dtype=np.uint8), [str(c) for c in range(300)])
    save_labels(tmp_path / "b", torch.full((2, 500), 299))
    assert len(list(load_labels(tmp_path / "b", many, "client 4"))) == 2
    (tmp_path / "c").write_bytes(b"nonsense")
    with pytest.raises(FedolError, match="is damaged"):
        list(load_labels(tmp_path / "c", task, "client 4"))
