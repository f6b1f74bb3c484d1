"""Does unchanged code look the same on both sides? ``python tests/calibration/symmetry.py`` prints the table of docs/trust.md.

From the pairs of every live check and calibration of unchanged code that was recorded on a GPU (see tests/data/README.md).
"""

from __future__ import annotations

import gzip
import json
import math
import statistics

from pools import DATA, MOVED
from tables import row, table

FILES = ("h200_checks.json.gz", "h200_looks.json.gz", "h200_graph.json.gz")


def main() -> None:
    logs: dict[str, list[float]] = {}
    checks = 0
    for name in FILES:
        for check in json.loads(gzip.decompress(DATA.joinpath(name).read_bytes())):
            checks += check.get("command", "check") == "check"
            for case, found in check["cases"].items():
                between = case == MOVED and found.get("clock", "event") == "event"
                shown = f"{case}, between events" if between else case
                logs.setdefault(shown, []).extend(pair["log_ratio"] * 100 for pair in found["pairs"])
    print(f"{checks} checks\n")
    table("case", "pairs", "spread of one pair", "mean, ± standard error", "in standard errors")
    for case, values in logs.items():
        mean, spread = statistics.fmean(values), statistics.stdev(values)
        error = spread / math.sqrt(len(values))
        row(case, len(values), f"{spread:.2f} %", f"{mean:+.3f} ± {error:.3f} %", f"{mean / error:+.1f}")
    means = [statistics.fmean(values) for values in logs.values()]
    print(f"\nover the cases: {statistics.fmean(means):+.3f} %")


if __name__ == "__main__":
    main()
