"""Batches: gathering, normalisation and augmentation."""

import torch
import torch.nn.functional as F

from fedol.data.images import ImageBatches, Images, Normalisation
from fedol.training import Job, Recipe

NORMALISE = Normalisation((0.5, 0.4), (0.25, 0.2))
IMAGES = torch.randint(256, (7, 2, 9, 11), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_plain_batch_is_the_normalised_images() -> None:
    index = torch.tensor([3, 0, 3])
    batch = ImageBatches(Images(IMAGES), NORMALISE, torch.device("cpu"))(index, None)
    assert torch.equal(batch, NORMALISE(IMAGES[index]))
    assert batch.is_contiguous(memory_format=torch.channels_last)


def test_augmentation_is_a_reflect_padded_crop_then_a_flip() -> None:
    views = torch.tensor([[-4, -4, 0], [4, 4, 1], [0, 0, 0], [-2, 3, 1], [0, 0, 1]])
    index = torch.tensor([0, 1, 2, 3, 2])
    batch = ImageBatches(Images(IMAGES), NORMALISE, torch.device("cpu"))(index, views)
    for row, (down, right, flip) in enumerate(views.tolist()):
        padded = F.pad(IMAGES[index[row]].float()[None], (4,) * 4, mode="reflect")[0]
        crop = padded[:, 4 + down : 13 + down, 4 + right : 15 + right]
        crop = crop.flip(2) if flip else crop
        assert torch.equal(batch[row], NORMALISE(crop[None].to(torch.uint8))[0])


def test_views_are_drawn_per_sample_epoch_and_job() -> None:
    def views(seed: int, epoch: int, side: int = 32) -> torch.Tensor:
        images = Images(torch.zeros(500, 1, side, side, dtype=torch.uint8))
        labels = torch.zeros(500, dtype=torch.long)
        return Job("a", torch.nn.Flatten(), images, labels, NORMALISE, Recipe(augment=True), seed).views(epoch)

    assert torch.equal(views(0, 1), views(0, 1))
    assert not torch.equal(views(0, 1), views(0, 2))
    assert not torch.equal(views(0, 1), views(1, 1))
    for side, most in ((32, 4), (8, 1), (4, 0)):  # an eighth of the image
        drawn = views(0, 1, side)
        assert drawn.amin(0).tolist() == [-most, -most, 0] and drawn.amax(0).tolist() == [most, most, 1]
