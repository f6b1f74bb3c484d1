"""What a report says of profiles."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ratchet.core.records.profile import CaseProfile, Finding, Profile
from ratchet.core.records.verdict import CaseVerdict, Outcome
from ratchet.core.report.markdown import render_markdown
from ratchet.core.report.terminal import plain_lines
from ratchet.explain.report import first_sentence, profile_lines, tables, why_lines
from ratchet.explain.results import diagnosed
from tests import examples, reports
from tests.recorded_runs import recorded

FALLEN = examples.case_profile(
    head=examples.traced(10, 2e-5, launches=30, gaps_s=1e-4, pageable_copies=1),
    reference=examples.traced(5, 1e-5, launches=5),
    ratio=2.0,
    findings=(),
    steps_down=("ncu (Nsight Compute) is not installed. Install it with the CUDA toolkit, or put it on the PATH.",),
    files={},
)
FALLEN = diagnosed(FALLEN)
NASTY = examples.case_profile(
    case=f"{examples.HOSTILE}/a",
    head=Profile(tool="ncu", kernels=(examples.kernel_profile(function=examples.HOSTILE, occupancy_limiter=examples.HOSTILE),)),
    findings=(
        Finding(
            key="x",
            what=examples.HOSTILE,
            why=examples.HOSTILE,
            advice="::error::pwned",
            confidence="low",
            weight=1,
            kernel=examples.HOSTILE,
        ),
    ),
    steps_down=("::error::pwned", examples.HOSTILE),
    failed={"reference": examples.HOSTILE},
    files={"page.png": f"nsight/{examples.HOSTILE}.png"},
)


def report(*profiles: CaseProfile, unprofiled: tuple[str, ...] = ()) -> str:
    return render_markdown(recorded("outcomes").reports[""].model_copy(update={"profiles": profiles, "unprofiled": unprofiled}))


def test_report(golden: Callable[[str, str], None]) -> None:
    """The section on profiles is what it was when somebody last looked at it."""
    text = report(examples.case_profile(), FALLEN.model_copy(update={"case": "layernorm/hidden_4096"}), unprofiled=("a/b", "a/c"))
    golden("report_profiles.md", text[text.index("### What the profiles show") : text.index("### Measure it again")])


def test_lines(golden: Callable[[str, str], None]) -> None:
    """What `ratchet profile` prints is what it was when somebody last looked at it."""
    lines = [*profile_lines(examples.case_profile(), "results"), *profile_lines(FALLEN, "results")]
    golden("profile_lines.txt", "".join(f"{line}\n" for line in lines))


def test_a_figure_that_is_missing_is_no_zero() -> None:
    """What one side lacks is a dash, what both lack has no row, and what is zero on both says nothing."""
    (table,) = tables(
        examples.case_profile(
            head=Profile(tool="ncu", kernels=(examples.kernel_profile(registers=None, sm_percent=0.0),)),
            reference=Profile(tool="ncu", kernels=(examples.kernel_profile(sm_percent=0.0),)),
        )
    )
    rows = {row.title: row for row in table.rows}
    assert (rows["Registers per thread"].head, rows["Registers per thread"].change) == ("–", "")
    assert "Waves" not in rows
    assert "SM throughput" not in rows


def test_without_a_finding_it_says_so() -> None:
    """Where nothing explains the change, or there is no profile of the head, the first sentence says that."""
    assert first_sentence(FALLEN) == "Each call spends more in aten::add (10.00 µs → 20.00 µs)."
    nothing = "The profiles show no difference that explains the slowdown."
    assert first_sentence(examples.case_profile(findings=())) == nothing
    lost = FALLEN.model_copy(update={"head": None, "failed": {"head": "It crashed."}})
    assert first_sentence(lost) == "There is no profile of the head: It crashed."
    assert "No profile of the head: It crashed." in report(lost)


def test_the_end_of_a_check_names_the_cause() -> None:
    """The plain lines of a check hold the first finding of each case, and how many cases have none."""
    changed = (
        recorded("outcomes").reports[""].model_copy(update={"profiles": (examples.case_profile(),), "unprofiled": ("gemm/2k",)})
    )
    lines = plain_lines(changed)
    assert "Why attention/inference_4k: Registers 128 → 255 and 1.2 MB of spills: occupancy halved." in lines
    assert "Not profiled: 1 more changed case; run `ratchet profile CASE` for each." in lines


def test_hostile_text_stays_text() -> None:
    """Names of kernels, rules and sentences of profilers become neither structure nor commands, in any output."""
    text = report(NASTY, unprofiled=(examples.HOSTILE,))
    for live in ("<img", "](https", "\x1b", "\n# hi", "@octocat", "</td>"):
        assert live not in text
    table: list[int] = []
    for line in [*text.split("\n"), ""]:
        if line.startswith(("| ", "|:")):
            table.append(line.count("|"))
        else:
            assert len(set(table)) <= 1
            table = []
    for line in [*profile_lines(NASTY, "results"), *why_lines(NASTY)]:
        assert not line.lstrip(" |").startswith("::"), line
        assert "\x1b" not in line
        assert "##[" not in line


@pytest.mark.parametrize("limit", [5000, 20_000])
def test_profiles_fit_a_comment(limit: int) -> None:
    """Many profiles do not push a report over its limit."""
    verdicts = tuple(CaseVerdict(name=f"a/{n}", outcome=Outcome.REGRESSED, reason="Slower.") for n in range(100))
    many = reports.report(verdicts, profiles=tuple(examples.case_profile(f"a/{n}") for n in range(100)))
    assert len(render_markdown(many, limit=limit)) <= limit
    assert len(re.findall(r"\*\*`a/\d+`\*\*", render_markdown(many))) == 100
