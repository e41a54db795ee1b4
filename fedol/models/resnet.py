"""Residual networks for small images: the ``9n + 2`` bottleneck family and the paper's cost-matched wide net."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from fedol.models.blocks import ConvNorm, Residual, basic, bottleneck

Block = Callable[[int, int, int], Residual]
"""(input channels, planes, stride) to a residual block."""


class ResNet(nn.Module):
    """3x3 stem, stages of residual blocks (every stage but the first halves the image), global mean, linear."""

    def __init__(
        self, block: Block, *, planes: Sequence[int], depths: Sequence[int], expansion: int, channels: int, classes: int
    ) -> None:
        super().__init__()
        features = planes[0]
        self.stem = ConvNorm(channels, features, 3)
        self.stages = nn.Sequential()
        for index, (width, depth) in enumerate(zip(planes, depths, strict=True)):
            stage = nn.Sequential()
            for position in range(depth):
                stage.append(block(features, width, 2 if index > 0 and position == 0 else 1))
                features = width * expansion
            self.stages.append(stage)
        self.head = nn.Linear(features, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[B, channels, H, W] to logits [B, classes]."""
        # A plain mean, not adaptive pooling: the backward of the latter is not deterministic on CUDA.
        logits: Tensor = self.head(self.stages(self.stem(images)).mean(dim=(2, 3)))
        return logits


def bottleneck_resnet(blocks: int, *, classes: int, channels: int, width: int) -> ResNet:
    """ResNet-``9 * blocks + 2`` of FedGEMS (its Table 10): three stages of ``blocks`` bottlenecks, expansion 4.

    At width 16 ResNet-11, -20 and -56 (1, 2 and 6 blocks) have 150,772, 243,508 and 614,452 parameters on 100 classes.
    """
    planes = [width, 2 * width, 4 * width]
    return ResNet(bottleneck, planes=planes, depths=[blocks] * 3, expansion=4, channels=channels, classes=classes)


def wide_resnet22(*, classes: int, channels: int) -> ResNet:
    """The net whose size matches the paper's cost table: 17,075,274 parameters (65.14 MiB) with 10 classes.

    Basic blocks [2, 2, 3, 3] at fixed widths 64 to 512: it takes no ``width``, which would change the size it is for.
    """
    planes, depths = [64, 128, 256, 512], [2, 2, 3, 3]
    return ResNet(basic, planes=planes, depths=depths, expansion=1, channels=channels, classes=classes)
