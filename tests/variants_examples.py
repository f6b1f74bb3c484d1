"""Sample records of variants: quick wins, a kernel at its configs, and at many sizes. The same every time."""

from __future__ import annotations

from ratchet.common.rooflines import Roof
from ratchet.core.records.run import Config, WorkloadIdentity
from ratchet.core.records.verdict import Comparison
from ratchet.lab.records.variants import Claim, VariantsCase, VariantsRecord, VariantTime
from ratchet.lab.variants import with_roofline
from tests import examples


def comparison(speedup: float, width: float = 0.01) -> Comparison:
    """The comparison of an own variant that is so many times as fast."""
    ratio = 1 / speedup
    return Comparison(
        ratio=ratio, low=ratio * (1 - width), high=ratio * (1 + width), confidence=0.95, p_value=0.0, cliffs_delta=-1.0, pairs=6
    )


def own(median_ms: float, name: str = "improved") -> VariantTime:
    return VariantTime(name=name, median_ms=median_ms, low_ms=0.99 * median_ms, high_ms=1.01 * median_ms)


def other(median_ms: float, speedup: float, name: str = "naive", width: float = 0.01) -> VariantTime:
    """A variant beside which the own one is so many times as fast."""
    compared = comparison(speedup, width)
    return VariantTime(name=name, median_ms=median_ms, low_ms=0.99 * median_ms, high_ms=1.01 * median_ms, comparison=compared)


def case(name: str, *variants: VariantTime, flops: float | None = None, size: float | None = None) -> VariantsCase:
    """A case of float32."""
    benchmark, _, config = name.partition("/")
    identity = WorkloadIdentity(
        parameters={}, device="cuda", dtype="float32", flops=flops, bytes=size, clock="event", cache="cold"
    )
    return VariantsCase(name=name, benchmark=benchmark, config=Config(name=config), workload=identity, variants=variants)


def claim(case_name: str, title: str, text: str, low: float | None = None, high: float | None = None) -> Claim:
    return Claim(case=case_name, title=title, step="2 quick wins", text=text, low=low, high=high)


def quickwins() -> VariantsRecord:
    """Claims that hold, that do not in each way, and that could not be measured."""
    broken = VariantTime(name="naive", problem="wrong result: the result is off by 1.00e+00 (relative; 1.0e-04 allowed)")
    return VariantsRecord(
        started_at=examples.STARTED,
        wall_s=96.4,
        command=("ratchet", "variants", "--quickwins"),
        environment=examples.ENVIRONMENT,
        plan=examples.PLAN.model_copy(update={"pairs": 6}),
        cases=(
            case("pinned/mib_64", own(1.2), other(5.1, 4.25), flops=0.0, size=67e6),
            case("preallocated/large", own(0.05), other(0.0501, 1.002), flops=17e6, size=201e6),
            case("bmm/products_40", own(0.021), other(0.99, 47.1), flops=21e6, size=2e6),
            case("launch_bounds/mib_256", own(0.16), other(0.15, 0.94), size=537e6),
            case("loader/pictures_32", own(9.0), other(30.0, 3.3)),
            case("prefetch/of_scalar", own(0.16), other(0.16, 1.01, width=0.3), size=537e6),
            case("graph/model", own(0.2), broken),
            VariantsCase(
                name="vector/mib_256",
                benchmark="vector",
                config=Config(name="mib_256"),
                problem="needs nvcc, which is not installed",
                skipped=True,
            ),
        ),
        claims=(
            claim("pinned", "Pinned memory", "2–6×", 2, 6),
            claim("loader", "Loader workers", "no figure"),
            claim("preallocated/large", "Preallocated | outputs", "1.5–2×", 1.5, 2),
            claim("bmm", "One bmm", "31×", 10, 31),
            claim("launch_bounds", "__launch_bounds__(256, 8)", "no figure"),
            claim("vector", "16-byte access", "1.28×", 1.28, 1.28),
            claim("prefetch/of_scalar", "Prefetch", "1.24×", 1.24, 1.24),
            claim("graph", "CUDA graph", "1.1–2×", 1.1, 2),
        ),
        warnings=("The GPU was shared.",),
    )


H200_NORMALIZE = {  # config → bytes, then ms of ours, original and torch
    "rows_1k": (1 << 20, 0.0021, 0.0032, 0.0081),
    "rows_4k": (8 << 20, 0.0046, 0.0078, 0.0143),
    "rows_8k": (32 << 20, 0.0121, 0.0199, 0.0382),
    "rows_16k": (128 << 20, 0.0362, 0.0521, 0.1134),
}


ROOFS = (
    Roof(kind="compute", source="datasheet", rate=66.9e12, precision="fp32"),
    Roof(kind="dram", source="datasheet", rate=4.8e12),
    Roof(kind="dram", source="measured", rate=4.15e12),
)


def variants(roofs: tuple[Roof, ...] = ROOFS, **changes: object) -> VariantsRecord:
    """Our normalisation beside the original and PyTorch's, about as fast as on an H200; the small ones from its L2 cache."""
    cases = []
    for name, (size, ours, original, by_torch) in H200_NORMALIZE.items():
        made = case(
            f"normalize/{name}",
            own(ours, "ours"),
            other(original, original / ours, "original"),
            other(by_torch, by_torch / ours, "torch"),
            flops=0.75 * size,
            size=size,
        )
        assert made.workload
        warm = {"clock": "graph", "cache": "warm"} if size < 40 << 20 else {}
        cases.append(made.model_copy(update={"workload": made.workload.model_copy(update=warm)}))
    update = {"cases": tuple(cases), "claims": (), "warnings": ()}
    return with_roofline(quickwins().model_copy(update=update | changes), roofs)


def sizes(values: int = 10, **changes: object) -> VariantsRecord:
    """Our normalisation of wider and wider rows, up to the roof of the memory; PyTorch's could not take the last ones."""
    cases = []
    for number in range(values):
        columns, size = 2 ** (10 + number), 8 * 4096 * 2 ** (10 + number)
        ours = 2e-3 + size / 4.3e9
        by_torch = other(6e-3 + size / 1.5e9, (6e-3 + size / 1.5e9) / ours, "torch", width=0.05)
        missing = VariantTime(name="torch", problem="ran out of GPU memory")
        made = case(
            f"normalize/columns_{columns}", own(ours, "ours"), missing if number > 7 else by_torch, flops=0.75 * size, size=size
        )
        cases.append(
            made.model_copy(update={"config": Config(name=f"columns_{columns}", parameters={"rows": 4096, "columns": columns})})
        )
    update = {"cases": tuple(cases), "parameter": "columns"}
    return variants(**update | changes)
