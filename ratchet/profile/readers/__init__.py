"""Read a report file of Nsight Compute into a `Profile`, with whatever reader this machine has. No GPU is needed.

Called by `ratchet.commands.profile` for reports that a check recorded and for ``--read``. Tries the package ``ncu-report``, the
module of an installed Nsight Compute, and `ncu` itself, in this order. Reads one file; all three run in a child process.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from ratchet.errors import RecordError
from ratchet.profile.metrics import RawKernel, kernel_profile
from ratchet.profile.ncu import ProfileError
from ratchet.profile.readers import ncu_csv, ncu_module
from ratchet.profile.readers.report_file import KNOWN_FORMAT, About, examine, ordinary
from ratchet.records.profile import Profile
from ratchet.untrusted import clean

_COMPRESSED = ".ncu-repz"
_TEMPORARY = "derived_tempMetric"
"""Start of names of metrics that the rules of ncu leave behind; sometimes NaN, and no figure uses them."""
_RATIOS = (".ratio", ".pct", "_pct", ".max_rate")
"""Ends of names of ratios, which are NaN where nothing was counted: zero divided by zero."""


def read(path: Path, environ: Mapping[str, str] | None = None) -> Profile:
    """Return the kernels of a ``.ncu-rep``, or of an exported raw page (``.csv``), of any kernel, chip and version.

    Raises RecordError where the file is missing, damaged, not a report or without a kernel, ProfileError where a counter is not a
    number or nothing on this machine reads reports.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        ordinary(path)
        return _profile(path, ncu_csv.read_file(path), "csv", About(KNOWN_FORMAT, None))
    if path.suffix.lower() == _COMPRESSED:
        ordinary(path)
        about = About(KNOWN_FORMAT, None)
    else:
        about = examine(path)
    kernels, reader = _read(path, os.environ if environ is None else environ)
    return _profile(path, kernels, reader, about)


def _read(path: Path, environ: Mapping[str, str]) -> tuple[list[RawKernel], str]:
    from ratchet.profile.ncu import find_ncu

    ncu: Path | None
    try:
        ncu = find_ncu(environ)
    except ProfileError:
        ncu = None
    for folder in (None, *ncu_module.module_folders(ncu)):
        kernels = ncu_module.read(path, environ, folder)
        if kernels is not None:
            return kernels, "ncu_report"
    if ncu is not None:
        return ncu_csv.read_report(path, ncu, environ), "csv"
    raise ProfileError(
        f"{path} cannot be read: the package ncu-report is not installed, and neither is Nsight Compute.",
        "Install the package with `pip install 'gpu-ratchet[profile]'`; it needs no GPU.",
    )


def _profile(path: Path, kernels: Sequence[RawKernel], reader: str, about: About) -> Profile:
    newer = about.format_version > KNOWN_FORMAT
    if not kernels:
        if newer:
            raise RecordError(
                f"{path} was written by a newer Nsight Compute (format {about.format_version}), which this reader does not know.",
                "Upgrade the package: pip install --upgrade ncu-report.",
            )
        raise RecordError(f"{path} holds no kernel.", "Perhaps no kernel matched: check ncu's --kernel-name and --launch-count.")
    finite = [_finite(path, kernel) for kernel in kernels]
    try:
        records = tuple(kernel_profile(kernel, index) for index, kernel in enumerate(finite))
    except ValidationError as error:
        place = ".".join(str(step) for step in error.errors()[0]["loc"])
        raise ProfileError(f"{path} holds an impossible figure: {place} of a kernel.", "Profile it once more.") from None
    warnings = [f"The report has format {about.format_version}, newer than those that ratchet knows."] if newer else []
    first = finite[0]
    sm_count = first.metrics.get("launch__sm_count", first.metrics.get("device__attribute_multiprocessor_count"))
    return Profile(
        tool="ncu",
        tool_version=about.tool_version,
        reader=reader,
        gpu=first.texts.get("device__attribute_display_name"),
        compute_capability=_capability(first.metrics),
        sm_count=None if sm_count is None else round(sm_count),
        kernels=records,
        warnings=tuple(warnings),
    )


def _finite(path: Path, kernel: RawKernel) -> RawKernel:
    """Drop ratios of nothing. Raises ProfileError where a counter itself is not a number: then the rest is unreliable too."""
    wrong = [name for name, value in kernel.metrics.items() if not math.isfinite(value)]
    for name in wrong:
        if not name.startswith(_TEMPORARY) and not name.endswith(_RATIOS):
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise ProfileError(
                f"{path}: the counter {clean(name, 120)} of {clean(kernel.name, 80)} is not a number{more}.",
                "Profile it once more, with nothing else on the GPU.",
            )
    kept = {name: value for name, value in kernel.metrics.items() if name not in wrong and not name.startswith(_TEMPORARY)}
    return kernel.model_copy(update={"metrics": kept})


def _capability(metrics: Mapping[str, float]) -> str | None:
    names = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")
    major, minor = (metrics.get(name) for name in names)
    return None if major is None or minor is None else f"{major:.0f}.{minor:.0f}"
