"""Pictures: what is written on them, that it can be read, and that nothing breaks them."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests import examples, reports, variants_examples

pytest.importorskip("matplotlib")

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.table import Table
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from ratchet import figure_style as style
from ratchet.common.launch_pairs import matched
from ratchet.common.rooflines import Roof, Roofline, RooflinePoint
from ratchet.core.errors import OutputError
from ratchet.core.judge.roofs import datasheet, measured_roofs
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.environment import Peaks
from ratchet.core.records.files import load
from ratchet.core.records.profile import Activity, CaseProfile, Finding, KernelProfile, Profile
from ratchet.core.records.verdict import CaseVerdict, Outcome
from ratchet.explain import page_figure as page
from ratchet.explain import roofline as pure
from ratchet.explain.roofline_figure import marks_of, needed_roofs, roofline_figure
from ratchet.lab.records.variants import VariantsRecord
from ratchet.lab.report.variants_figure import variants_figure
from ratchet.lab.variants import with_roofline

STORED = Path(__file__).parents[2] / "results" / "baseline.json"
STALLS = {"long_scoreboard": 12.5, "wait": 2.1, "barrier": 0.004, "selected": 1.0, "math_pipe_throttle": 0.9, "lg_throttle": 7.0}
FULL: dict[str, Any] = {
    "dram_percent": 40.0,
    "l2_hit_percent": 55.5,
    "tensor_percent": 0.0,
    "stalls": STALLS,
    "shared_bytes": 49152,
    "grid": (1024, 1, 1),
    "block": (256, 1, 1),
    "flops": {"fp32": 1e8, "tensor_bf16": 8e9},
    "peaks": Peaks(dram_bytes_per_s=4.79e12, l2_bytes_per_s=1.02e13, flops_per_s={"tensor_bf16": 1.068e15}),
    "metrics": {"lts__throughput.avg.pct_of_peak_sustained_elapsed": 61.0},
}
LONG = Finding(
    key="x",
    what="Occupancy 23 % → 12 %; the launch allows 25 % → 12 %, limited by registers (100 → 160 per thread). " * 3,
    why="Other warps hide the time that one waits. With few of them an SM stands still while it waits for memory. " * 3,
    advice="Lower what limits it: shared memory per block, registers per thread, or the block's size. " * 3,
    confidence="medium",
    weight=0.5,
)
TRACE = Activity(
    calls=10,
    wall_s=0.02,
    kernels={"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >": 2e-3, "gemm $x^2$": 1e-3},
    launches=60,
    copies_s=1e-3,
    pageable_copies=10,
    gaps_s=4e-3,
    cpu_s={"cudaLaunchKernel": 1e-3, "cudaMalloc": 5e-3},
    allocation_s=5e-3,
)


def kernel(**changes: Any) -> KernelProfile:
    return examples.kernel_profile(**(FULL | changes))


def ncu(*kernels: KernelProfile) -> Profile:
    return Profile(tool="ncu", tool_version="2025.3.1", gpu="NVIDIA H200", kernels=kernels)


def traced(**changes: Any) -> Profile:
    return Profile(tool="torch", tool_version="2.11.0", activity=TRACE.model_copy(update=changes))


def full(**changes: Any) -> CaseProfile:
    usual: dict[str, Any] = {
        "head": ncu(kernel(occupancy_percent=24.0, registers=255, spill_bytes=1.2e6, duration_s=80e-6, dram_read_bytes=90e6)),
        "reference": ncu(kernel()),
        "findings": (*examples.case_profile().findings, LONG, LONG, LONG),
    }
    return examples.case_profile(**(usual | changes))


def both_sides(profile: CaseProfile, **changes: Any) -> Roofline:
    sheet = datasheet("NVIDIA H200")
    assert sheet is not None
    roofs = (
        Roof(kind="dram", source="measured", rate=4.15e12),
        Roof(kind="compute", source="measured", rate=736e12, precision="tensor_bf16"),
        *pure.roofs_from("report", pure.report_peaks([profile.reference, profile.head])),
        *pure.roofs_from("datasheet", sheet),
    )
    points = [
        pure.counted(profile.case, side, seen, roofs, seconds)
        for side, seen, seconds in (("reference", profile.reference, 61e-6), ("head", profile.head, 90e-6))
        if seen
    ]
    shown = [point.model_copy(update=changes) for point in points if point]
    return pure.roofline("NVIDIA H200", shown, roofs)


def verdict(outcome: Outcome = Outcome.REGRESSED, ratio: float = 1.0521) -> CaseVerdict:
    return reports.case("attention/inference_4k", outcome, "5.2 % slower.", ratio, 1.041)


def stored_roofline(device: str = "NVIDIA H200", points: int = 99) -> Roofline:
    """The baseline of this repository: eleven cases measured on an H200."""
    (part,) = load(STORED, Baseline).fingerprints.values()
    sheet = datasheet(part.fingerprint.gpu)
    assert sheet is not None
    roofs = (*pure.roofs_measured(measured_roofs((), part.configs)), *pure.roofs_from("datasheet", sheet))
    found = [pure.declared(name, None, each.workload, each.median_ms / 1e3) for name, each in part.configs.items()]
    return pure.roofline(device, found[:points], roofs, ["normalize/rows_1k is timed with its data in the L2 cache."])


PAGES: dict[str, Callable[[], Figure]] = {
    "full": lambda: page.page_figure(full(), verdict(), both_sides(full()), examples.ENVIRONMENT, examples.STARTED),
    "sparse": lambda: page.page_figure(examples.case_profile(), verdict(), None),
    "one side": lambda: page.page_figure(full(reference=None), None, both_sides(full(reference=None))),
    "several kernels": lambda: page.page_figure(
        full(head=ncu(kernel(), kernel(function="b", name="b<3>"), kernel(function="c", duration_s=1e-3))), verdict(), None
    ),
    "nothing": lambda: page.page_figure(CaseProfile(case="a/b", failed={"head": "It crashed."}), None, None),
    "traced": lambda: page.page_figure(full(head=traced(), reference=traced(launches=10)), verdict(), None),
    "no flops": lambda: page.page_figure(full(), verdict(), both_sides(full(), flops=0.0)),
    "same place": lambda: page.page_figure(full(), verdict(), both_sides(full(), seconds=61e-6, bytes=64e6)),
    "hostile": lambda: page.page_figure(hostile(), verdict(), None),
    "roofline": lambda: roofline_figure(stored_roofline()),
    "roofline of one": lambda: roofline_figure(stored_roofline(points=1)),
    "roofline of a copy": lambda: roofline_figure(
        stored_roofline().model_copy(update={"points": tuple(p for p in stored_roofline().points if not p.flops)})
    ),
    "roofline of nothing": lambda: roofline_figure(Roofline(device="a CPU", notes=("No roof was measured. " * 30,))),
    "roofline with L2": lambda: roofline_figure(
        stored_roofline().model_copy(update={"roofs": (*stored_roofline().roofs, Roof(kind="l2", source="report", rate=1.02e13))})
    ),
    "roofline of many": lambda: roofline_figure(many_cases_and_roofs()),
    "variants": lambda: variants_figure(variants_examples.variants()),
    "variants of nothing": lambda: variants_figure(variants_examples.variants(cases=())),
    "hostile variants": lambda: variants_figure(hostile_variants(variants_examples.variants())),
    "many sizes": lambda: variants_figure(variants_examples.sizes()),
    "one size": lambda: variants_figure(variants_examples.sizes(1)),
    "thirty sizes": lambda: variants_figure(variants_examples.sizes(30)),
    "sizes of nothing": lambda: variants_figure(variants_examples.sizes(cases=())),
    "hostile sizes": lambda: variants_figure(hostile_variants(variants_examples.sizes())),
    "hostile roofline": lambda: roofline_figure(
        stored_roofline(device=examples.HOSTILE).model_copy(
            update={"points": tuple(p.model_copy(update={"case": examples.HOSTILE * 3}) for p in stored_roofline().points[:2])}
        )
    ),
}


def many_cases_and_roofs() -> Roofline:
    stored = stored_roofline()
    points = [point.model_copy(update={"case": f"_{copy}{point.case}"}) for copy in range(4) for point in stored.points]
    roofs = [
        Roof(kind="compute", source="report", rate=3e13 * 1.35**number, precision=f"tensor_x{number}") for number in range(12)
    ]
    return stored.model_copy(update={"points": tuple(points), "roofs": (*stored.roofs, *roofs)})


def hostile_variants(record: VariantsRecord) -> VariantsRecord:
    """The record with names that no benchmark should have."""
    nasty = examples.HOSTILE * 3
    cases = [
        case.model_copy(
            update={
                "benchmark": nasty,
                "config": case.config.model_copy(update={"name": f"{nasty}{number}"}),
                "variants": tuple(variant.model_copy(update={"name": f"{variant.name}{nasty}"}) for variant in case.variants),
            }
        )
        for number, case in enumerate(record.cases)
    ]
    return with_roofline(record.model_copy(update={"cases": tuple(cases)}), variants_examples.ROOFS)


def hostile() -> CaseProfile:
    nasty = examples.HOSTILE + r" $\frac{1}{0}$ \mathbf{} 漢字 \u202e"
    odd = kernel(name=nasty * 30, function=nasty, occupancy_limiter=nasty, stalls={nasty: 3.0, "wait": 1.0})
    finding = LONG.model_copy(update={"what": nasty * 9, "why": "W" * 900, "advice": "$a_b$ " * 60})
    return full(
        case=nasty * 3,
        head=ncu(odd, odd),
        findings=(finding,) * 4,
        steps_down=(nasty * 40,) * 6,
        failed={"reference": nasty},
        head_tree=examples.HEAD.model_copy(update={"subject": nasty * 5}),
    )


@pytest.fixture(scope="module", params=PAGES)
def drawn(request: pytest.FixtureRequest) -> Iterator[Figure]:
    with style.drawing():
        figure = PAGES[request.param]()
        figure.canvas.draw()
        yield figure


def texts(figure: Figure) -> list[Text]:
    """The texts of a picture, without the labels of ticks outside the view, which are never drawn."""
    hidden = {
        id(label)
        for axes in figure.findobj(Axes)
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    cells = [cell.get_text() for table in figure.findobj(Table) for _, cell in sorted(table.get_celld().items())]
    found = [*figure.findobj(Text), *cells]
    return [text for text in found if text.get_text().strip() and text.get_visible() and id(text) not in hidden]


def box(text: Text) -> Bbox:
    """Where the letters are, without the arrow of an annotation."""
    return Text.get_window_extent(text)


def written(figure: Figure) -> str:
    """Everything on a picture, lines joined."""
    with style.drawing():
        figure.canvas.draw()
        return " ".join(text.get_text().replace("\n", " ") for text in texts(figure))


@pytest.mark.slow
@pytest.mark.no_cover
def test_every_text_can_be_read(drawn: Figure) -> None:
    """No text lies on another, leaves the picture, is covered by a mark, or is below 7.5 pixels on a screen of 400."""
    places = [(text, box(text)) for text in texts(drawn)]
    shown = [(text.get_text(), place.padded(-1)) for text, place in places]  # without the leading
    assert [(one, other) for (one, mine), (other, theirs) in combinations(shown, 2) if mine.overlaps(theirs)] == []
    for text, place in places:
        assert all(drawn.bbox.containsx(x) for x in (place.x0, place.x1)), text
        assert all(drawn.bbox.containsy(y) for y in (place.y0, place.y1)), text
        assert text.get_fontsize() / 72 / drawn.get_figwidth() * 400 >= 7.5, text
    for axes in drawn.findobj(Axes):
        for line in axes.lines:
            if line.get_marker() not in ("None", None, "", " "):
                points = axes.transData.transform(np.column_stack(line.get_data()))
                assert not any(place.contains(x, y) for x, y in points for _, place in places), line


@pytest.mark.slow
@pytest.mark.no_cover
def test_no_text_is_mathematics(drawn: Figure) -> None:
    """A dollar sign is a dollar sign, and no text holds what moves or hides other text."""
    for text in texts(drawn):
        assert not text.get_parse_math()
        assert not set("\x1b\u202e\r") & set(text.get_text())


@pytest.mark.slow
def test_what_is_written(drawn: Figure, request: pytest.FixtureRequest, golden: Callable[[str, str], None]) -> None:
    """The texts on each picture are what they were when somebody last looked at them."""
    name = request.node.callspec.params["drawn"].replace(",", "").replace(" ", "_")
    lines = "\n".join(text.get_text().replace("\n", " ") for text in texts(drawn))
    golden(f"pictures/{name}.txt", f"{lines}\n")


def test_cases_differ_in_look() -> None:
    """The cases of one benchmark share a colour; no two cases share both, even if colours are fewer than benchmarks."""
    marks = marks_of(many_cases_and_roofs().points)
    assert len({(mark.colour, mark.shape) for mark in marks}) == len(marks)
    assert len({mark.colour for mark in marks if mark.point.case.startswith("_0attention/")}) == 1


def test_the_heaviest_changed_launch() -> None:
    """A short kernel that changed comes before a long one that did not; without a change, the longest."""
    same, grown = kernel(function="same", duration_s=1e-3), kernel(function="grown", duration_s=1e-5)
    before = ncu(same, grown.model_copy(update={"duration_s": 5e-6}))
    assert (page.heaviest(matched(ncu(same, grown), before)) or ())[0] is grown
    assert (page.heaviest(matched(ncu(same, grown), ncu(grown, same))) or ())[0] is same
    assert page.heaviest([]) is None


def test_long_times_are_in_milliseconds() -> None:
    """All bars of a part have one unit: ms from 10 ms on, else µs."""

    def bars(took_s: float) -> list[tuple[str, float | None]]:
        head = traced(calls=2, kernels={"long": 2 * took_s, "short": 2e-6}).activity
        return [(bar.unit, bar.head) for bar in page.times(None, head, lambda activity: activity.kernels)]

    assert bars(0.02) == [("ms", pytest.approx(20.0)), ("ms", pytest.approx(1e-3))]
    assert bars(0.002) == [("µs", pytest.approx(2000.0)), ("µs", pytest.approx(1.0))]


def test_a_wide_interval_presses_no_line_to_the_ground() -> None:
    """The scale of a sweep is that of its lines: an interval of a hundred times the rate is cut off."""
    record = variants_examples.sizes().model_copy(update={"roofline": None})
    wide = [
        case.model_copy(
            update={"variants": tuple(one.model_copy(update={"low_ms": (one.median_ms or 1) / 100}) for one in case.variants)}
        )
        for case in record.cases
    ]
    tops = []
    for cases in (record.cases, tuple(wide)):
        with style.drawing():
            tops.append([axes.get_ylim()[1] for axes in variants_figure(record.model_copy(update={"cases": cases})).axes])
    assert tops[0]
    assert all(low < high < 1.6 * low for low, high in zip(*tops, strict=True))


def test_roofs_of_a_small_picture() -> None:
    """Beside the arrow stand only roofs that a side is read against, the report's where no datasheet has one."""
    both = both_sides(full())
    shown = {roof.key for roof in needed_roofs(both)}
    assert shown == {"dram measured", "dram datasheet", "tensor_bf16 measured", "tensor_bf16 datasheet"}
    unknown = both.model_copy(update={"roofs": tuple(roof for roof in both.roofs if roof.source != "datasheet")})
    assert {roof.key for roof in needed_roofs(unknown)} >= {"dram report", "tensor_bf16 report"}


@pytest.mark.slow
@pytest.mark.no_cover
def test_files(tmp_path: Path) -> None:
    """The PNG is 1200 pixels wide; both files are the same every time, whatever settings and day."""
    roofline = both_sides(full())

    def draw() -> Figure:
        return page.page_figure(full(), verdict(), roofline, examples.ENVIRONMENT)

    first = style.write_files(draw, tmp_path / "a", "page")
    with mpl.rc_context(
        {"font.size": 30, "figure.dpi": 30, "text.usetex": False, "axes.edgecolor": "red", "svg.fonttype": "path"}
    ):
        again = style.write_files(draw, tmp_path / "b", "page")
    assert [path.name for path in first] == ["page.png", "page.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    with Image.open(first[0]) as image:
        assert image.width == 1200
    svg = first[1].read_text(encoding="utf-8")
    assert "Registers 128 → 255 and 1.2 MB of spills" in svg
    assert "DejaVu Sans', 'Bitstream Vera Sans', Verdana, sans-serif" in svg
    assert svg.count("@media (prefers-color-scheme: dark)") == 1, "a dark screen shows a dark picture"
    assert sum(path.stat().st_size for path in first) < 400_000
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["page.png", "page.svg"]


@pytest.mark.no_cover
def test_our_style_stays_ours(tmp_path: Path) -> None:
    """Drawing leaves matplotlib's settings as they were, and warns of nothing."""
    before = mpl.rcParams.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.write_files(lambda: roofline_figure(stored_roofline(points=1)), tmp_path, "roofline")
    assert mpl.rcParams.copy() == before


@pytest.mark.slow
@pytest.mark.no_cover
def test_without_a_home(tmp_path: Path) -> None:
    """With no home, no pyplot and no display the picture comes, and nothing is said."""
    home = tmp_path / "home"
    home.write_text("a file, in which no folder can be made\n", encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = (
        "import sys; from pathlib import Path; from ratchet.common.rooflines import Roofline;"
        " from ratchet.explain.roofline_figure import roofline_figure; from ratchet.figure_style import write_files;"
        " write_files(lambda: roofline_figure(Roofline(device='x')), Path(sys.argv[1]), 'roofline');"
        " sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    environ = {"HOME": str(home), "TMPDIR": str(scratch), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True, env=environ, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "out" / "roofline.png").stat().st_size > 1000


@pytest.mark.no_cover
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the place of the folder is one sentence, and stays."""
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be written"):
        style.write_files(lambda: roofline_figure(Roofline(device="x")), tmp_path / "taken", "roofline")
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "mine"


@pytest.mark.no_cover
def test_hollow_and_solid() -> None:
    """Counted points are solid and declared ones hollow, and a line below the title explains those that there are."""
    counted = RooflinePoint(case="a/b", flops=1e9, precision="fp32", bytes=1e6, seconds=1e-4, source="counters")
    roofline = stored_roofline(points=1)
    declared, both = (roofline.model_copy(update={"points": (*roofline.points, *more)}) for more in ((), (counted,)))
    faces = {mark.point.case: mark.face for mark in marks_of(both.points)}
    assert faces.pop("a/b") != "none"
    assert set(faces.values()) == {"none"}
    with style.drawing():
        hollow = written(roofline_figure(declared))
        assert "Hollow: work declared by the benchmark." in hollow
        assert "counted by the profiler" not in hollow
        assert "Solid: work counted by the profiler. Hollow:" in written(roofline_figure(both))


@pytest.mark.parametrize(
    "text", ["a few words " * 50, "W" * 500, "漢字" * 99, "void f<" + "int, " * 90, "$x$ ﷽ שלום عليكم " * 20]
)
def test_text_that_fits(text: str) -> None:
    """A long text loses its end and a long name its middle, and neither is wider than its place."""
    with style.drawing():
        lines = style.wrapped(text, 9, 200, 3)
        name = style.shortened(text, 9, 200)
        assert max(style.width_of(line, 9) for line in (*lines, name)) <= 200
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert name.count("…") == 1
    assert name[-1] == style.drawable(text, 1200)[-1]
    with style.drawing():
        assert style.wrapped("short", 9, 200, 3) == [style.shortened("short", 9, 200)] == ["short"]
