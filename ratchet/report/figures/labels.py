"""Labels beside points, where they hide nothing: no other label, no point, as little of a line as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in pixels."""

Point = tuple[float, float]

_SWEEPS = 3
_DIRECTIONS = ((1, 0), (1, -1), (1, 1), (-1, 0), (-1, 1), (-1, -1), (0, -1), (0, 1))
_DISTANCES = (9.0, 16.0, 26.0, 40.0, 60.0, 85.0, 115.0, 150.0, 190.0)


@dataclass(frozen=True)
class Spot:
    """Where a label goes."""

    box: Box
    distance: float
    """Pixels from its point."""

    @property
    def far(self) -> bool:
        """Whether a thin line to its point is needed."""
        return self.distance > _DISTANCES[0]

    def near(self, point: Point) -> Point:
        """The place of the label where that line ends."""
        left, bottom, right, top = self.box
        return min(max(point[0], left), right), min(max(point[1], bottom + 2), top - 2)


def place(
    points: Sequence[Point],
    sizes: Sequence[tuple[float, float]],
    inside: Box,
    taken: Sequence[Box],
    lines: Sequence[Box] = (),
) -> list[Spot]:
    """A spot for the label of each point; the labels are (width, height).

    ``taken`` are boxes that no label may cover, ``lines`` those that it had better not. Where there is no free spot, the one
    that covers least is taken. Each label is placed among the others a few times over; the same every time.
    """
    fixed = [*taken, *((x - 7, y - 7, x + 7, y + 7) for x, y in points)]
    spots: dict[int, Spot] = {}
    for _ in range(_SWEEPS):
        for number, (point, size) in enumerate(zip(points, sizes, strict=True)):
            others = [spot for at, spot in spots.items() if at != number]
            leaders = [part for at, spot in spots.items() if at != number for part in leader(points[at], spot)]
            crowd = _Crowd(inside, _boxes([*fixed, *(spot.box for spot in others)]), _boxes(lines), _boxes(leaders))
            spots[number] = min(_candidates(point, size), key=lambda each: _cost(each, point, crowd))
    return [spots[number] for number in range(len(points))]


def leader(point: Point, spot: Spot) -> list[Box]:
    """The thin line from a point to its label, as small boxes; none where they stand side by side."""
    return along(point, spot.near(point), 1.0, 4.0)[2:] if spot.far else []


def overlap(one: Box, other: Box) -> float:
    """Area that two boxes share, in square pixels."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def along(start: tuple[float, float], end: tuple[float, float], thickness: float = 4.0, step: float = 6.0) -> list[Box]:
    """A line as small boxes."""
    length = math.dist(start, end)
    count = max(1, math.ceil(length / step))
    half = thickness / 2
    return [
        (x - half, y - half, x + half, y + half)
        for number in range(count + 1)
        for x, y in [(start[0] + (end[0] - start[0]) * number / count, start[1] + (end[1] - start[1]) * number / count)]
    ]


def spread(wanted: Sequence[float], height: float, low: float, high: float) -> list[float]:
    """Heights near the ones wanted and at least ``height`` apart, within ``low`` … ``high`` while there is room; same order."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    placed: list[float] = []
    for number in order:
        placed.append(max(wanted[number], placed[-1] + height if placed else low))
    if placed and placed[-1] > high:
        placed[-1] = high
        for number in range(len(placed) - 2, -1, -1):
            placed[number] = min(placed[number], placed[number + 1] - height)
    result = [0.0] * len(wanted)
    for place_, number in zip(placed, order, strict=True):
        result[number] = place_
    return result


def _candidates(point: Point, size: tuple[float, float]) -> list[Spot]:
    width, height = size
    found = []
    for distance in _DISTANCES:
        for across, up in _DIRECTIONS:
            left = point[0] + across * distance - (width if across < 0 else width / 2 if across == 0 else 0)
            bottom = point[1] + up * distance - (height if up < 0 else height / 2 if up == 0 else 0)
            found.append(Spot((left, bottom, left + width, bottom + height), distance))
    return found


@dataclass(frozen=True)
class _Crowd:
    """What a label has to keep clear of; boxes are arrays of shape (count, 4)."""

    inside: Box
    used: Boxes
    lines: Boxes
    leaders: Boxes
    """The thin lines to other labels."""


def _cost(spot: Spot, point: Point, crowd: _Crowd) -> float:
    """Square pixels covered, the ones that matter more often, and the distance."""
    box, own = spot.box, _boxes([spot.box])
    beyond = (box[2] - box[0]) * (box[3] - box[1]) - overlap(box, crowd.inside)
    cost = 100 * (beyond + _shared(own, crowd.used).sum()) + 3 * spot.distance
    cost += 0.25 * _shared(own, crowd.lines).sum() + 20 * _shared(own, crowd.leaders).sum()
    parts = _boxes(leader(point, spot)[1:])
    cost += 25 * (_shared(parts, crowd.used) > 0).sum() + 4 * (_shared(parts, crowd.lines) > 0).sum()
    return float(cost + 60 * bool((_shared(parts, crowd.leaders) > 0).any()))


def _boxes(boxes: Sequence[Box]) -> Boxes:
    return np.asarray(boxes, dtype=float).reshape(-1, 4)


def _shared(some: Boxes, others: Boxes) -> Boxes:
    """Areas that each of ``some`` shares with each of ``others``: (some, others)."""
    wide = np.minimum(some[:, None, 2], others[None, :, 2]) - np.maximum(some[:, None, 0], others[None, :, 0])
    high = np.minimum(some[:, None, 3], others[None, :, 3]) - np.maximum(some[:, None, 1], others[None, :, 1])
    area: Boxes = np.maximum(wide, 0.0) * np.maximum(high, 0.0)
    return area
