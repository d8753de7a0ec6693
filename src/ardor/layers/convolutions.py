"""Blocks with a convolution: separable, pointwise, full, and the one that halves an image."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.layers.blocks import Normalised
from ardor.layers.variational import Variational, samples_weights
from ardor.native.shapes import NO_VARIANCE, Shape


class SeparableBlock(Normalised):
    """Depthwise, pointwise, normalised."""

    def __init__(
        self, depthwise: nn.Conv2d, pointwise: nn.Conv2d, norm: nn.BatchNorm2d, *, relu_last: bool
    ) -> None:
        super().__init__(norm, relu_last=relu_last)
        self.depthwise, self.pointwise = depthwise, pointwise

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.relu_last else F.relu(x)
        x = self.norm(self.pointwise(self.depthwise(x)))
        return F.relu(x) if self.relu_last else x

    def native(self) -> bool:
        # A pruned one may be narrower in between, which the native code cannot compute.
        return super().native() and self.pointwise.in_channels == self.pointwise.out_channels

    def weights(self) -> list[Tensor]:
        pairs = zip(convolution(self.depthwise), convolution(self.pointwise), strict=True)
        return [*(weight for pair in pairs for weight in pair), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> Shape:
        return Shape(
            self.depthwise.kernel_size[0],
            self.depthwise.stride[0],
            self.depthwise.dilation[0],
            relu=not (first and self.relu_last),
            relu_last=last and self.relu_last,
            samples_weights=samples_weights(self.depthwise),
            affine=self.norm.affine,
            eps=self.norm.eps,
        )


class PointwiseBlock(Normalised):
    """Rectified, mixed across channels, normalised."""

    def __init__(self, pointwise: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.pointwise = pointwise

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.pointwise(F.relu(x)))  # type: ignore[no-any-return]

    def weights(self) -> list[Tensor]:
        return [*convolution(self.pointwise), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> Shape:
        return mixing_shape(self.pointwise, self.norm)


class FullBlock(Normalised):
    """Rectified, convolved across pixels and channels at once, normalised."""

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(F.relu(x)))  # type: ignore[no-any-return]

    def native(self) -> bool:
        square = self.conv.in_channels == self.conv.out_channels
        return super().native() and square and not samples_weights(self.conv)

    def weights(self) -> list[Tensor]:
        return [*convolution(self.conv), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> Shape:
        return mixing_shape(self.conv, self.norm)


class FactorizedReduce(Normalised):
    """Halves the image without dropping pixels: two strided 1x1 convolutions, one shifted."""

    def __init__(self, even: nn.Conv2d, odd: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.even, self.odd = even, odd

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        # An odd side is padded, so that both halves have the size of any other strided operation.
        shifted = F.pad(x, (-1, x.shape[3] % 2, -1, x.shape[2] % 2))
        joined: Tensor = self.norm(torch.cat([self.even(x), self.odd(shifted)], 1))
        return joined

    def weights(self) -> list[Tensor]:
        """Those of one pointwise convolution on pairs of pixels: each half reads its own pixel."""
        halves = zip(convolution(self.even), convolution(self.odd), strict=True)
        width = self.even.in_channels
        joined = [
            torch.cat(
                [
                    F.pad(even, (0, 0, 0, 0, 0, width), value=absent),
                    F.pad(odd, (0, 0, 0, 0, width, 0), value=absent),
                ]
            )
            for (even, odd), absent in zip(halves, (0.0, NO_VARIANCE), strict=False)
        ]
        return [*joined, *super().weights()]

    def shape(self, *, first: bool, last: bool) -> Shape:
        return mixing_shape(self.even, self.norm)


def convolution(conv: nn.Conv2d) -> list[Tensor]:
    """Its weights, and their log-variances where its activations are drawn."""
    if not isinstance(conv, Variational):
        return [conv.weight]
    if not conv.training:
        return [conv.pruned()]
    return [conv.weight, conv.log_var] if samples_weights(conv) else [conv.weight]


def mixing_shape(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> Shape:
    """Kind and sizes of a convolution across channels; a strided 1x1 reads pairs of pixels."""
    return Shape(
        conv.kernel_size[0],
        conv.stride[0],
        kind="pointwise" if conv.kernel_size[0] == 1 else "full",
        channels=(conv.in_channels, norm.num_features),
        relu=True,
        samples_weights=samples_weights(conv),
        affine=norm.affine,
        eps=norm.eps,
    )
