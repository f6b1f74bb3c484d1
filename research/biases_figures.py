"""From the rows that `biases.py` measured to its tables: means, errors, p-values and one sentence for each experiment."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One figure of the last table, in percent."""

    experiment: str
    case: str
    what: str
    mean: float
    error: float
    count: int
    p_value: float = math.nan
    note: str = ""

    @property
    def shown(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f} %"


@dataclass(frozen=True)
class Summary:
    """The printed result of an experiment."""

    header: tuple[str, ...]
    table: Sequence[tuple[str, ...]]
    lines: list[Line]
    verdict: str


def line_of(experiment: str, case: str, what: str, logs: Sequence[float]) -> Line:
    """Mean, standard error and the probability of such a mean by chance (Student's t)."""
    values = 100 * np.array(logs)
    if len(values) < 2:
        return Line(experiment, case, what, float(values.mean()) if len(values) else math.nan, math.nan, len(values))
    error = float(values.std(ddof=1) / math.sqrt(len(values)))
    return Line(
        experiment, case, what, float(values.mean()), error, len(values), p_value_of(values.mean(), error, len(values) - 1)
    )


def p_value_of(mean: float, error: float, dof: int) -> float:
    return float(2 * stats.t.sf(abs(mean) / error, dof)) if error > 0 and dof > 0 else math.nan


def by(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Rows grouped by one key, or by the values of several."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys), []).append(row)
    return groups


def logs_of(rows: Iterable[Row], key: str = "log_ratio") -> list[float]:
    return [row[key] for row in rows]


def together(experiment: str, what: str, rows: Sequence[Row], key: str, *unit: str) -> Line:
    """Over all cases: one value for each unit that was measured afresh, the mean of its cases."""
    return line_of(experiment, "all", what, [statistics.fmean(logs_of(group, key)) for group in by(rows, *unit).values()])


def verdict_of(lines: Sequence[Line], everything: Line) -> str:
    """Says which figures differ from 0 by more than chance would have one of them do in twenty runs."""
    tested = [line for line in lines if not math.isnan(line.p_value)]
    if not tested:
        return "too few pairs to say anything"
    seen = [line for line in tested if line.p_value * len(tested) < 0.05]
    largest = max(tested, key=lambda line: abs(line.mean))
    if seen:
        sentence = "a bias: " + ", ".join(f"{line.case} {line.what} {line.shown}" for line in seen)
    else:
        sentence = f"no bias to be seen; the largest is {largest.case} {largest.what} {largest.shown}"
    return f"{sentence}; all cases together {everything.shown}"


def summarise_plain(experiment: str, what: str, rows: Sequence[Row]) -> Summary:
    """Mean log ratio for each case."""
    unit = ("parent", "pair") if "parent" in rows[0] else ("pair", "swing")
    lines = [line_of(experiment, case, what, logs_of(group)) for case, group in by(rows, "case").items()]
    everything = together(experiment, what, rows, "log_ratio", *unit)
    table = [
        (line.case, str(line.count), line.shown, percent(spread(logs_of(group))), p_text(line.p_value))
        for line, group in zip(lines, by(rows, "case").values(), strict=True)
    ]
    return Summary(("case", "n", what, "spread", "p"), table, [*lines, everything], verdict_of(lines, everything))


def summarise_parents(experiment: str, rows: Sequence[Row]) -> Summary:
    table, lines, p_values = [], [], []
    for case, group in by(rows, "case").items():
        parts = anova(group)
        means = [statistics.fmean(logs_of(rows)) for rows in by(group, "parent").values()]
        line = line_of(experiment, case, "head/reference, over parents", means)
        lines.append(
            dataclasses.replace(line, note=f"between {parts.between:.3f} %, F {parts.ratio:.2f}, p {p_text(parts.p_value)}")
        )
        p_values.append((parts.p_value, case))
        table.append((
            case, str(len(group)), line.shown, f"{parts.within:.3f} %", f"{parts.between:.3f} %", f"{parts.component:+.4f}",
            f"{parts.ratio:.2f}", f"{parts.degrees[0]}, {parts.degrees[1]}", p_text(parts.p_value),
        ))  # fmt: skip
    everything = together(experiment, "head/reference, over parents", rows, "log_ratio", "parent")
    tested = [(p, case) for p, case in p_values if not math.isnan(p)]
    if not tested:
        sentence = "too few parents to say anything"
    else:
        low, case = min(tested)
        sentence = "pairs of other parents differ by more" if low * len(tested) < 0.05 else "parents add nothing that can be seen"
        sentence += f": smallest p {p_text(low)} of {len(tested)} cases ({case})"
    header = ("case", "n", "head/reference", "within", "between", "component (%²)", "F", "df", "p")
    return Summary(header, table, [*lines, everything], f"{sentence}; all cases together {everything.shown}")


@dataclass(frozen=True)
class Anova:
    """Standard deviations in percent; ``component`` is the variance between, in percent², and may be negative by chance."""

    within: float
    between: float
    component: float
    ratio: float
    degrees: tuple[int, int]
    p_value: float


def anova(rows: Sequence[Row]) -> Anova:
    """One-way analysis of variance over parents. What the order of forks does, the same in all, is taken out first."""
    groups = [group for group in by(rows, "parent").values() if group]
    values = [100 * np.array(logs_of(group)) for group in groups]
    signs = [np.array([1.0 if row["forked_first"] == "head" else -1.0 for row in group]) for group in groups]
    sign_rest = np.concatenate([of_group - of_group.mean() for of_group in signs])
    value_rest = np.concatenate([of_group - of_group.mean() for of_group in values])
    power = float(sign_rest @ sign_rest)
    effect = float(sign_rest @ value_rest) / power if power > 0 else 0.0
    sizes = np.array([len(of_group) for of_group in values])
    total = int(sizes.sum())
    degrees = (len(groups) - 1, total - len(groups) - (1 if power > 0 else 0))
    if min(degrees) < 1:
        return Anova(math.nan, math.nan, math.nan, math.nan, degrees, math.nan)
    within = (float(value_rest @ value_rest) - effect**2 * power) / degrees[1]
    means = np.array([value.mean() - effect * sign.mean() for value, sign in zip(values, signs, strict=True)])
    between = float(sizes @ (means - np.average(means, weights=sizes)) ** 2) / degrees[0]
    component = (between - within) / float((total - (sizes**2).sum() / total) / degrees[0])
    ratio = between / within if within > 0 else math.nan
    return Anova(math.sqrt(within), math.sqrt(max(0.0, component)), component, ratio, degrees, float(stats.f.sf(ratio, *degrees)))


FIRSTS = ("forked first", "prepared first", "timed first")


def summarise_first(experiment: str, rows: Sequence[Row]) -> Summary:
    """The two arms as they are, then what each kind of being first does by itself (least squares)."""
    table, lines = [], []
    for case, group in by(rows, "case").items():
        same = line_of(experiment, case, "forks, prepares first", arm(group, same=True))
        crossed = line_of(experiment, case, "forks first, prepares second", arm(group, same=False))
        effects = [Line(experiment, case, what, *effect) for what, effect in zip(("head", *FIRSTS), firsts(group), strict=True)]
        lines += [same, crossed, *effects[1:]]
        table.append((case, str(len(group)), same.shown, crossed.shown, *(line.shown for line in effects)))
    everything = [
        line_of(experiment, "all", f"{what} (by pair)", over_cases(rows, key))
        for what, key in zip(FIRSTS, ("forked_first", "prepared_first", "timed_first"), strict=True)
    ]
    effects = [line for line in lines if line.what in FIRSTS]
    sentence = verdict_of(effects, everything[0]).rpartition("; all cases")[0] or "too few pairs to say anything"
    sentence += "; all cases together: " + ", ".join(f"{line.what} {line.shown}" for line in everything)
    header = ("case", "n", "forks+prepares first", "forks 1st, prepares 2nd", "head/reference", *FIRSTS)
    return Summary(header, table, [*lines, *everything], sentence)


def arm(rows: Iterable[Row], *, same: bool) -> list[float]:
    """Log of the time of the side forked first / the other's, where it also prepares first or does not."""
    chosen = (row for row in rows if (row["forked_first"] == row["prepared_first"]) == same)
    return [row["log_ratio"] * sign_of(row, "forked_first") for row in chosen]


def sign_of(row: Row, key: str) -> float:
    return 1.0 if row[key] == "head" else -1.0


def over_cases(rows: Sequence[Row], key: str) -> list[float]:
    return [statistics.fmean(row["log_ratio"] * sign_of(row, key) for row in group) for group in by(rows, "pair").values()]


def firsts(rows: Sequence[Row]) -> list[tuple[float, float, int, float]]:
    """(mean, error, n, p-value) of: head/reference, forked first, prepared first, timed first."""
    design = np.array([[1.0, *(sign_of(row, f"{what.split()[0]}_first") for what in FIRSTS)] for row in rows])
    values = 100 * np.array(logs_of(rows))
    dof = len(rows) - design.shape[1]
    if dof < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return [(math.nan, math.nan, len(rows), math.nan)] * design.shape[1]
    coefficients = np.linalg.lstsq(design, values, rcond=None)[0]
    rest = values - design @ coefficients
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * float(rest @ rest) / dof)
    return [
        (float(mean), float(error), len(rows), p_value_of(float(mean), float(error), dof))
        for mean, error in zip(coefficients, errors, strict=True)
    ]


def summarise_heavy(experiment: str, rows: Sequence[Row]) -> Summary:
    keys = {
        "heavy_1": "1st block after heavy",
        "heavy_2": "2nd block after heavy",
        "idle_1": "1st block after a pause",
        "idle_2": "2nd block after a pause",
    }
    table, lines = [], []
    for case, group in by(rows, "case").items():
        of_case = [line_of(experiment, case, what, logs_of(group, key)) for key, what in keys.items()]
        lines += of_case
        table.append((case, str(len(group)), *(line.shown for line in of_case)))
    everything = [together(experiment, what, rows, key, "pair") for key, what in keys.items()]
    verdict = verdict_of([line for line in lines if line.what == keys["heavy_1"]], everything[0])
    return Summary(("case", "n", *keys.values()), table, [*lines, *everything], verdict)


def spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else math.nan


def correlation(first_values: Sequence[float], second_values: Sequence[float | None]) -> str:
    known = [(a, b) for a, b in zip(first_values, second_values, strict=True) if b is not None]
    if len(known) < 3 or len({b for _, b in known}) < 2 or len({a for a, _ in known}) < 2:
        return "-"
    return f"{np.corrcoef(np.array(known).T)[0, 1]:+.2f}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def p_text(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())
