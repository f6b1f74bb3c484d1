"""Read a report from the CSV of Nsight Compute's raw page: a row of names, a row of units, then a row for each launch.

``ncu --import R --csv --page raw --print-units base`` (Nsight Compute CLI, Command Line Options). `ratchet.profile.readers` calls
`read_report`, which runs `ncu`, or `read_file`, which only reads an exported page.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ratchet.errors import RecordError
from ratchet.profile.metrics import RawKernel, in_base_units
from ratchet.profile.ncu import Surroundings, run
from ratchet.records.profile import Rule
from ratchet.untrusted import clean

TIME_LIMIT_S = 120.0
"""Time in which `ncu` has to write one page."""
LARGEST_BYTES = 256 * 2**20
"""Bytes of an exported page at most."""
_KERNEL, _GRID, _BLOCK, _CAPABILITY = "Kernel Name", "Grid Size", "Block Size", "CC"
_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][-+]?\d+)?")
_RAW = "Export it with `ncu --import REPORT --csv --page raw --print-units base`."


def read_report(path: Path, ncu: Path, environ: Mapping[str, str]) -> list[RawKernel]:
    """Return the launches of a ``.ncu-rep`` through ``ncu`` itself, with the rules of its details page. Raises RecordError."""
    kernels = read_text(_page(path, ncu, environ, "raw"), path)
    rules_of = rules(_page(path, ncu, environ, "details"))
    return [kernel.model_copy(update={"rules": tuple(rules_of.get(index, ()))}) for index, kernel in enumerate(kernels)]


def read_file(path: Path) -> list[RawKernel]:
    """Return the launches of an exported page, which has no rules. Raises RecordError."""
    with path.open("rb") as stream:
        content = stream.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise RecordError(f"{path} is larger than 256 MiB, so it is not a page of a report.", "Check the path.")
    return read_text(content.decode("utf-8-sig", "replace"), path)


def read_text(text: str, path: Path) -> list[RawKernel]:
    """Return the launches of a page. Raises RecordError, which names ``path``, for no page, one cut off, or a repeated column."""
    rows = _rows(text, path)
    header = next(rows, None)
    if header is None:
        raise RecordError(f"{path} has no line that begins like a page of Nsight Compute.", _RAW)
    if "Metric Name" in header:
        raise RecordError(f"{path} is the details page of a report, which rounds its figures and leaves most of them out.", _RAW)
    if len(set(header)) < len(header):
        raise RecordError(f"{path} names a column twice.", _RAW)
    units = next(rows, None)
    if units is None or len(units) != len(header):
        raise RecordError(f"{path} ends before the row of units.", _RAW)
    if units[header.index(_KERNEL)]:
        raise RecordError(f"{path} has no row of units below the names.", _RAW)
    return [_kernel(header, units, row, path, number) for number, row in enumerate(rows, 1)]


def _rows(text: str, path: Path) -> Iterator[list[str]]:
    """Yield the rows of the table, without whatever ncu or the program printed before it."""
    begin = re.search(r'^"?ID"?,(?=.*Kernel Name)', text, re.MULTILINE)
    table = csv.reader(io.StringIO(text[begin.start() :]), strict=True) if begin else iter(())
    try:
        for row in table:
            if row:
                yield row
    except csv.Error as error:
        raise RecordError(f"{path} is not CSV, or is cut off: {error}.", _RAW) from None


def _kernel(header: list[str], units: list[str], row: list[str], path: Path, number: int) -> RawKernel:
    if len(row) != len(header):
        raise RecordError(f"{path} is cut off: launch {number} has {len(row)} of {len(header)} columns.", _RAW)
    metrics: dict[str, float] = {}
    texts: dict[str, str] = {}
    for name, unit, cell in zip(header, units, row, strict=True):
        if "_" not in name:  # of the launch, not a metric: ID, Process Name, Stream
            continue
        value = _number(cell)
        if value is not None:
            metrics[name] = in_base_units(value, unit)
        elif cell:
            texts[name] = cell
    columns = dict(zip(header, row, strict=True))
    return RawKernel(name=columns[_KERNEL], metrics={**_launch(columns), **metrics}, texts=texts)


def _number(cell: str) -> float | None:
    """Convert ``1,234.50`` to 1234.5; None for words and for an empty cell."""
    if cell and _NUMBER.fullmatch(cell) and any(letter.isdigit() for letter in cell):
        return float(cell.replace(",", ""))
    return math.nan if cell.lower().lstrip("-+") in ("nan", "inf", "nan(ind)") else None


def _launch(columns: Mapping[str, str]) -> dict[str, float]:
    """Return grid, block and compute capability of a page with few metrics, by the names that a full report uses."""
    metrics: dict[str, float] = {}
    for column, name in ((_GRID, "grid"), (_BLOCK, "block")):
        extent = re.findall(r"\d{1,10}", columns.get(column, ""))
        if len(extent) == 3:
            metrics.update({f"launch__{name}_dim_{axis}": float(each) for axis, each in zip("xyz", extent, strict=True)})
    capability = re.fullmatch(r"(\d{1,3})\.(\d{1,2})", columns.get(_CAPABILITY, ""))
    if capability:
        names = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")
        metrics.update(dict(zip(names, map(float, capability.groups()), strict=True)))
    return metrics


def rules(text: str) -> dict[int, list[Rule]]:
    """Return the rules of the details page, by the place of their launch (from 0). Rows of metrics are skipped."""
    begin = re.search(r'^"?ID"?,(?=.*Rule Name)', text, re.MULTILINE)
    places: dict[str, int] = {}
    by_launch: dict[int, list[Rule]] = {}
    for row in csv.DictReader(io.StringIO(text[begin.start() :])) if begin else ():
        index = places.setdefault(row["ID"], len(places))
        if row.get("Rule Name") and row.get("Rule Description"):
            estimate = _number(row.get("Estimated Speedup") or "")
            scope = {"global": "global", "local": "local"}.get((row.get("Estimated Speedup Type") or "").lower())
            rule = {"name": row["Rule Name"], "title": "", "message": row["Rule Description"], "scope": scope}
            by_launch.setdefault(index, []).append(Rule.model_validate({**rule, "speedup_percent": estimate}))
    return by_launch


def _page(path: Path, ncu: Path, environ: Mapping[str, str], page: str) -> str:
    with tempfile.TemporaryDirectory(prefix="ratchet-report-") as scratch:
        output = Path(scratch) / "page.csv"
        options = ["--csv", "--page", page, "--print-units", "base", "--log-file", str(output)]
        ended = run([ncu, "--import", path.resolve(), *options], Surroundings(environ, Path(scratch), TIME_LIMIT_S))
        if ended.status != 0 or not output.is_file():
            why = clean(output.read_text(encoding="utf-8", errors="replace")) if output.is_file() else ended.last_line()
            raise RecordError(f"{path} is not a report that ncu can read: {why}", "Copy it again, or profile again.")
        return output.read_text(encoding="utf-8", errors="replace")
