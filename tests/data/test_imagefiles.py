"""Image files that are read as they are needed: any size, 8 and 16 bits, PNG to DICOM, wrong ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import Command

pytest.importorskip("PIL", reason="image files need Pillow")

from image_folders import KINDS, draw, picture, save
from PIL import Image

import fedol
from fedol.data import ImageFiles, Images, Normalisation, Reading, load
from fedol.data.decoding import DEEP, Form, decoded
from fedol.data.images import ImageBatches
from fedol.data.stored import load_samples
from fedol.errors import InputError

SIZE = 16
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def colour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("colour") / "colour", 30, 6)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("deep") / "deep", 30, 6, bits=16)


def files_of(folder: Path) -> ImageFiles:
    found = load(str(folder), reading=Reading(image_size=SIZE)).train.samples
    assert isinstance(found, ImageFiles)
    return found


def in_memory(files: ImageFiles) -> Images:
    return Images(torch.from_numpy(files.array()))


def test_files_of_any_size_are_made_one(colour: Path) -> None:
    data = load(str(colour), reading=Reading(image_size=SIZE))
    assert (len(data.train), len(data.test), data.classes, data.shape) == (90, 18, KINDS, (3, SIZE, SIZE))
    file = files_of(colour).files[3]
    with Image.open(file) as image:
        expected = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    np.testing.assert_array_equal(files_of(colour).batch(torch.tensor([3]))[0].numpy(), expected)


def test_a_small_folder_of_one_size_is_read_as_before(tmp_path: Path) -> None:
    for kind in KINDS:
        for number in range(5):
            save(np.full((4, 4), 0.1 * number), tmp_path / kind / f"{number}.png")
    assert isinstance(load(str(tmp_path)).train.samples, Images)
    save(np.zeros((5, 4)), tmp_path / "dark" / "6.png")
    with pytest.raises(InputError, match=r"6.png is 4x5 pixels but .* resize them to one size, or .*--image-size"):
        load(str(tmp_path))


def test_sixteen_bits_stay(deep: Path) -> None:
    files = files_of(deep)
    assert files.shape == (1, SIZE, SIZE) and files.array().dtype == np.uint16
    assert len(np.unique(files.array())) > 1000
    fitted = files.fit(files)
    assert fitted.levels == DEEP and fitted == Normalisation.from_header(fitted.header(), files.shape)
    prepared = fitted(files.batch(slice(None)))
    assert abs(prepared.mean().item()) < 1e-3 and abs(prepared.std().item() - 1) < 1e-3
    assert files.pictures().dtype == np.uint8 and files.pictures().max() == 255
    with pytest.raises(InputError, match="takes images of 16 bits, but these have 8"):
        fitted.accept(Images(torch.zeros(2, 1, SIZE, SIZE, dtype=torch.uint8)), files.shape)


def test_a_batch_is_that_of_images_in_memory(colour: Path) -> None:
    """Views, patches and cutmix, in an epoch whose batches are read ahead and in a single one."""
    files, generator = files_of(colour), torch.Generator().manual_seed(0)
    prepare = files.fit()
    memory = ImageBatches(in_memory(files), prepare, CPU)
    order = torch.randperm(90, generator=generator).split(32)
    for how, mix in (("cutout", False), ("cutmix", True)):
        views, patches = files.views(90, generator).split(32), files.patches(how, 90, generator).split(32)
        steps = list(zip(order, views, patches, strict=True))
        for step, found in zip(steps, files.on(CPU, prepare).epoch(steps, mix), strict=True):
            torch.testing.assert_close(found, memory(*step, mix), rtol=0, atol=0)
    torch.testing.assert_close(files.on(CPU, prepare)(order[0], None), memory(order[0], None), rtol=0, atol=0)


def test_content_and_form_are_the_fingerprint_and_names_are_not(colour: Path, tmp_path: Path) -> None:
    files = files_of(colour)
    files.copied(tmp_path / "copy")
    copy, _ = load_samples(tmp_path / "copy", len(files), Reading(image_size=SIZE))
    assert copy.fingerprint == files.fingerprint != files.take([1, 0]).fingerprint
    assert load_samples(tmp_path / "copy", None, Reading(image_size=SIZE + 1))[0].fingerprint != files.fingerprint
    first = next(iter(sorted((tmp_path / "copy").iterdir())))
    save(np.ones((9, 9)), first)
    assert load_samples(tmp_path / "copy", None, Reading(image_size=SIZE))[0].fingerprint != files.fingerprint
    both = files.take(slice(2)).joined(files.take(np.arange(90) > 87))
    assert both.files == (*files.files[:2], *files.files[88:]) and len(set(both.digests())) == 4


def test_the_normalisation_is_the_public_ones(colour: Path) -> None:
    files = files_of(colour)
    few = files.take(slice(10))
    assert files.fit(few) == few.fit() != files.fit()
    expected = in_memory(few).fit()
    assert (few.fit().mean, few.fit().std, few.fit().image_size) == (expected.mean, expected.std, SIZE)


def dicom(file: Path, values: np.ndarray, bits: int = 12, **more: object) -> None:
    """A DICOM file as a scanner writes it."""
    pydicom = pytest.importorskip("pydicom", reason="DICOM files need the package pydicom")
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    data = pydicom.Dataset()
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = SecondaryCaptureImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = generate_uid()
    data.Rows, data.Columns = values.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, bits, bits - 1
    data.PixelRepresentation = int(values.dtype.kind == "i")
    for name, value in more.items():
        setattr(data, name, value)
    data.PixelData = values.tobytes()
    file.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(file, enforce_file_format=True)


def test_dicom_is_read_whatever_the_scanner_stored(tmp_path: Path) -> None:
    form = Form(2, 1, DEEP)
    plain = np.array([[0, 4095], [819, 2049]], np.uint16)
    dicom(tmp_path / "plain.dcm", plain)
    stretched = np.rint(plain * (65_535 / 4095)).astype(np.uint16)
    np.testing.assert_array_equal(decoded(tmp_path / "plain.dcm", form)[0], stretched)
    dicom(tmp_path / "white.dcm", plain, PhotometricInterpretation="MONOCHROME1")
    np.testing.assert_array_equal(decoded(tmp_path / "white.dcm", form)[0], 65_535 - stretched)
    hounsfield = np.array([[-1000, 0], [40, 1000]], np.int16)
    dicom(tmp_path / "one.dcm", (hounsfield + 1024).astype(np.uint16), RescaleSlope=1, RescaleIntercept=-1024)
    dicom(tmp_path / "two.dcm", (hounsfield // 2).astype(np.int16), 16, RescaleSlope=2, RescaleIntercept=0)
    for file in ("one.dcm", "two.dcm"):
        np.testing.assert_array_equal(decoded(tmp_path / file, form)[0].astype(int) - 32_768, hounsfield)


def test_a_folder_of_dicom_trains(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for kind in KINDS:
        for number in range(12):
            values = np.rint(picture(kind, rng) * 4095).astype(np.uint16)
            dicom(tmp_path / "scans" / kind / f"{number}.dcm", values)
    with pytest.raises(InputError, match=r"is a DICOM image, which are made one size .* give --image-size"):
        load(str(tmp_path / "scans"))
    small = {"clients": 2, "public": 6, "partition": "iid", "epochs": 1, "iterations": 1, "device": "cpu"}
    result = fedol.run(dataset=str(tmp_path / "scans"), image_size=8, width=2, out=tmp_path / "run", **small)
    assert fedol.load(result.out).architecture.prepare.levels == DEEP


@pytest.fixture
def broken(colour: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(colour, tmp_path / "broken"))


def test_wrong_files_are_one_sentence_that_names_the_file(broken: Path, deep: Path) -> None:
    target = broken / "train" / "light" / "004.png"
    whole = target.read_bytes()
    for content, words in (
        (b"no image", r"light/004.png cannot be read as an image .*; replace or remove it"),
        ((deep / "train" / "light" / "004.png").read_bytes(), r"light/004.png has 16 bits per pixel but .* has 8; con"),
    ):
        target.write_bytes(content)
        with pytest.raises(InputError, match=words):
            load(str(broken), reading=Reading(image_size=SIZE))
    Image.fromarray(np.zeros((3, 3), np.float32)).save(target.with_suffix(".tif"))
    target.unlink()
    with pytest.raises(InputError, match=r"004.tif holds floating-point pixels; convert it to 8 or 16 bits"):
        load(str(broken), reading=Reading(image_size=SIZE))
    target.with_suffix(".tif").unlink()
    target.write_bytes(whole[: len(whole) // 2])  # whose header is whole
    with pytest.raises(InputError, match=r"004.png cannot be read as an image"):
        files_of(broken).array()


def test_a_file_that_claims_to_be_enormous_is_refused(tmp_path: Path) -> None:
    Image.new("1", (20_000, 10_000)).save(tmp_path / "bomb.png")
    with pytest.raises(InputError, match=r"bomb.png (has 200,000,000 pixels|cannot be read)"):
        ImageFiles.of([tmp_path / "bomb.png"], 8)


@pytest.mark.parametrize(("name", "size", "words"), [
    ("digits", 8, "An image size is for folders of image files, which digits is not"),
    ("colour", 0, "must lie between 1 and 4,096 pixels, but is 0"),
])  # fmt: skip
def test_sizes_that_make_no_sense(colour: Path, name: str, size: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(str(colour) if name == "colour" else name, reading=Reading(image_size=size))


def test_every_command_takes_them(colour: Path, command: Command, tmp_path: Path) -> None:
    """From the task to the exported model; everyone holds the same public folder."""
    public, task = tmp_path / "public", tmp_path / "task"
    files_of(colour).take(np.arange(0, 90, 3)).copied(public)
    made = command("task", "new", task, "--public", public, "--classes", ",".join(KINDS), "--image-size", SIZE)
    assert made.code == 0 and json.loads((task / "task.json").read_text())["image_size"] == SIZE
    quick = ("--epochs", 1, "--width", 2, "--device", "cpu", "--quiet")
    for name in ("alice", "bob"):
        model, file = tmp_path / f"{name}.safetensors", tmp_path / "inbox" / f"{name}.fedol"
        assert command("client", "fit", task, "--data", colour, "--model", "cnn", "--out", model, *quick).code == 0
        assert command("client", "predict", task, "--model", model, "--out", file, "--quiet").code == 0
        assert command("inspect", file, "--task", task).code == 0
    where = ("--inbox", tmp_path / "inbox", "--quorum", 2, "--test", colour / "test", "--out", tmp_path / "run")
    assert command("serve", task, *where, "--model", "cnn", "--iterations", 1, *quick).code == 0
    assert (tmp_path / "run" / "public.png").exists() and command("report", tmp_path / "run").code == 0
    said = command("predict", tmp_path / "run", colour / "test")
    assert said.code == 0 and len(said.out.splitlines()) == 18
    pytest.importorskip("onnxscript", reason="exporting needs the extra onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    assert command("export", tmp_path / "run", "--onnx", tmp_path / "model.onnx", "--quiet").code == 0
    images = load(str(colour), reading=Reading(image_size=SIZE)).test.samples
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (found,) = session.run(None, {"images": images.array()})
    np.testing.assert_allclose(found, fedol.load(tmp_path / "run").predict_proba(images), atol=1e-4)


def test_wrong_tasks_of_files(colour: Path, deep: Path, command: Command, tmp_path: Path) -> None:
    files_of(colour).take(slice(12)).copied(tmp_path / "public")
    new = ("task", "new", tmp_path / "task", "--classes", ",".join(KINDS), "--image-size", SIZE, "--public")
    said = command(*new, tmp_path / "public.npz")
    assert said.code == 2 and "--image-size is for folders of image files" in said.err.replace("\n", " ")
    assert command(*new, tmp_path / "public", "--only-fingerprint").code == 0
    fit = ("client", "fit", tmp_path / "task", "--public", tmp_path / "public", "--model", "cnn", "--epochs", 1)
    said = command(*fit, "--data", deep, "--out", tmp_path / "m.safetensors")
    assert said.code == 2 and "1x16x16, 16 bits" in " ".join(said.err.split())
    (tmp_path / "public" / "0000003.png").unlink()
    said = command(*fit, "--data", colour, "--out", tmp_path / "m.safetensors")
    assert said.code == 2 and "holds 11 images, but the task has 12" in " ".join(said.err.split())
