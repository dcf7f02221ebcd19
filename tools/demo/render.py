"""Draws scenes as pixels (at any size, on any device) and roughens them the way real files do.

Shapes are signed distance functions with one pixel of soft edge; the grid, sizes and font scale with the side, so a
picture drawn at 448 and resized to 112 looks like one drawn at 112.
"""
import math

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

from scenes import BACKGROUNDS, COLORS

BASE_SIDE = 112         # lengths below are in pixels of a picture of this side
CELL_PITCH, CELL_CENTER, NUMBER_BOX, FONT_SIZE = 37, 18, 36, 26
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


def distances(dx, dy, r):
    """Signed distance (negative inside) to each of SHAPES of radius r. dx, dy [n, h, w], r [n, 1, 1]"""
    d, ax, ay = (dx ** 2 + dy ** 2).sqrt(), dx.abs(), dy.abs()
    return [
        d - r,                                                                                          # circle
        torch.maximum(ax, ay) - r * .85,                                                                # square
        torch.maximum(ay - r * .8, ax * 1.2 + dy * .6 - r * .55),                                       # triangle
        ax + ay - r * 1.1,                                                                              # diamond
        torch.minimum(torch.maximum(ax - r * .3, ay - r), torch.maximum(ay - r * .3, ax - r)),          # cross
        (d - r * .75).abs() - r * .22,                                                                  # ring
        d - r * (.62 + .38 * torch.cos(5 * torch.atan2(dx, -dy))),                                      # star
        torch.maximum(ax - r, ay - r * .35),                                                            # bar
    ]


class Renderer:
    def __init__(self, side=BASE_SIDE, device="cpu"):
        self.side, self.device, self.scale = side, device, side / BASE_SIDE
        axis = torch.arange(side, device=device).float()
        self.y, self.x = torch.meshgrid(axis, axis, indexing="ij")
        self.colors = torch.tensor(list(COLORS.values()), device=device).float()
        self.backgrounds = torch.tensor(list(BACKGROUNDS.values()), device=device).float()
        self.box = round(NUMBER_BOX * self.scale)
        self.digits = self._draw_numbers()
        self.dct = _dct_basis().to(device)
        self.mean = torch.tensor(CLIP_MEAN, device=device).view(1, 3, 1, 1) * 255
        self.std = torch.tensor(CLIP_STD, device=device).view(1, 3, 1, 1) * 255

    def _draw_numbers(self):
        """Coverage of each number 0-99 in its box: [100, box, box] in 0..1"""
        font = ImageFont.load_default(size=FONT_SIZE * self.scale)
        out = np.zeros((100, self.box, self.box), np.uint8)
        for n in range(100):
            im = Image.new("L", (self.box, self.box))
            ImageDraw.Draw(im).text((self.box / 2, self.box / 2), str(n), fill=255, font=font, anchor="mm")
            out[n] = np.asarray(im)
        return torch.from_numpy(out).to(self.device).float() / 255

    def _number_coverage(self, number_and_cell, jitter):
        number, cell = number_and_cell // 9, number_and_cell % 9
        top = ((cell // 3) * CELL_PITCH * self.scale + jitter[:, 1]).round().clamp(min=0)[:, None, None]
        left = ((cell % 3) * CELL_PITCH * self.scale + jitter[:, 0]).round().clamp(min=0)[:, None, None]
        y, x = self.y[None] - top, self.x[None] - left
        inside = (y >= 0) & (y < self.box) & (x >= 0) & (x < self.box) & (number_and_cell >= 0)[:, None, None]
        y, x = y.clamp(0, self.box - 1).long(), x.clamp(0, self.box - 1).long()
        return self.digits[number.clamp(min=0)[:, None, None], y, x] * inside

    def __call__(self, rows, noise):
        """rows [n, ROW_LENGTH] as Scene.row(), or fewer columns when there are fewer items; noise: standard deviation in grey
        levels, a number or [n]. Returns [n, 3, side, side] float in 0..255. Positions jitter by 2 base pixels, the
        background has a slight slope."""
        rows = rows.to(self.device).long()
        n, dev, s = rows.shape[0], self.device, self.scale
        n_items = (rows.shape[1] - 2) // 4
        slope = (torch.rand(n, 2, 1, 1, 1, device=dev) - .5) * 16
        half = self.side / 2
        image = self.backgrounds[rows[:, 0]][:, :, None, None] + slope[:, 0] * (self.x - half) / half + slope[:, 1] * (self.y - half) / half
        items = rows[:, 2:].reshape(n * n_items, 4)
        shape, cell = items[:, 0], items[:, 2].clamp(min=0)
        radius = torch.where(items[:, 3] > 0, 16., 10.)[:, None, None] * s
        jitter = (torch.rand(n * n_items, 2, device=dev) - .5) * 4
        dx = self.x - (((cell % 3) * CELL_PITCH + CELL_CENTER + jitter[:, 0]) * s)[:, None, None]
        dy = self.y - (((cell // 3) * CELL_PITCH + CELL_CENTER + jitter[:, 1]) * s)[:, None, None]
        dist = torch.full_like(dx, 1e3)         # an absent item is far away
        for k, d in enumerate(distances(dx, dy, radius)):
            dist = torch.where((shape == k)[:, None, None], d, dist)
        alphas = (.5 - dist).clamp(0, 1).view(n, n_items, 1, self.side, self.side)
        colors = self.colors[items[:, 1].clamp(min=0)].view(n, n_items, 3, 1, 1)
        for j in range(n_items):
            image = torch.lerp(image, colors[:, j].expand_as(image), alphas[:, j].expand_as(image))
        jitter = (torch.rand(n, 2, device=dev) - .5) * 3 * s
        alpha = self._number_coverage(rows[:, 1], jitter)[:, None]
        ink = torch.where(rows[:, 0] == 0, 0., 255.)[:, None, None, None]
        image = image * (1 - alpha) + ink * alpha
        if isinstance(noise, torch.Tensor):
            noise = noise[:, None, None, None]
        return (image + torch.randn_like(image) * noise).clamp(0, 255)

    def normalise(self, image):
        return (image - self.mean) / self.std


# ---- what files do to pixels

def _dct_basis():
    k, i = torch.meshgrid(torch.arange(8.), torch.arange(8.), indexing="ij")
    basis = torch.cos(math.pi * (2 * i + 1) * k / 16) * .5
    basis[0] *= math.sqrt(.5)
    return basis


def _quantise_blocks(plane, step, basis):
    """8x8 DCT, coefficients rounded to multiples of a step that grows with frequency, and back. plane [n, h, w], step [n]"""
    n, h, w = plane.shape
    grow = 1 + .35 * (torch.arange(8., device=plane.device)[:, None] + torch.arange(8., device=plane.device)[None])
    step = step.view(n, 1, 1, 1, 1) * grow
    blocks = plane.view(n, h // 8, 8, w // 8, 8).transpose(2, 3)
    coefficients = (basis @ blocks @ basis.T / step).round() * step
    return (basis.T @ coefficients @ basis).transpose(2, 3).reshape(n, h, w)


def _soften(image, amount):
    """Mixes with a 3x3 binomial blur; a negative amount sharpens. amount [n]"""
    p = F.pad(image, (1, 1, 1, 1), mode="replicate")
    p = (p[:, :, :-2] + 2 * p[:, :, 1:-1] + p[:, :, 2:]) / 4
    return torch.lerp(image, (p[..., :-2] + 2 * p[..., 1:-1] + p[..., 2:]) / 4, amount[:, None, None, None])


def roughen(image, dct):
    """Resize blur, colour shift, 4:2:0 chroma and block quantisation, each on a share of the frames and of random strength.
    image [n, 3, side, side] in 0..255, side a multiple of 16, dct the renderer's; returns whole numbers in 0..255."""
    n, dev = image.shape[0], image.device

    def some(share):
        return (torch.rand(n, device=dev) < share).float()

    image = _soften(image, some(.6) * (torch.rand(n, device=dev) * 1.3 - .3))
    gain = 1 + (torch.rand(n, 3, 1, 1, device=dev) - .5) * .12
    image = ((image - 128) * gain + 128 + (torch.rand(n, 3, 1, 1, device=dev) - .5) * 10).clamp(0, 255)
    r, g, b = image.unbind(1)
    y = .299 * r + .587 * g + .114 * b
    chroma = F.avg_pool2d(torch.stack([(b - y) / 1.772, (r - y) / 1.402], 1), 2)
    step = 1 + 15 * torch.rand(n, device=dev) ** 2
    y = _quantise_blocks(y, step, dct)
    half = chroma.shape[-1]
    if half % 8 == 0:
        chroma = _quantise_blocks(chroma.reshape(2 * n, half, half), step.repeat_interleave(2), dct).view(n, 2, half, half)
    smooth = F.interpolate(chroma, scale_factor=2, mode="bilinear", align_corners=False)
    blocky = F.interpolate(chroma, scale_factor=2, mode="nearest")
    cb, cr = torch.lerp(smooth, blocky, some(.5)[:, None, None, None]).unbind(1)
    coded = torch.stack([y + 1.402 * cr, y - .344136 * cb - .714136 * cr, y + 1.772 * cb], 1)
    return torch.lerp(image, coded, some(.6)[:, None, None, None]).clamp(0, 255).round()


def draw_rough(renderer, rows):
    """What training sees: rows [n, ROW_LENGTH] drawn with noise, roughened and normalised for the tower"""
    noise = torch.rand(rows.shape[0], device=renderer.device) * 5
    return renderer.normalise(roughen(renderer(rows, noise), renderer.dct))
