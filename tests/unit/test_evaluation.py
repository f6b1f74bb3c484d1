"""`ratchet evaluate` without processes: inputs as text, what follows from times, and what a certificate holds."""

from __future__ import annotations

import hashlib
import json
import py_compile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.device.environment import describe
from ratchet.core.errors import Exit, RecordError
from ratchet.core.records.files import dumps
from ratchet.core.units import parse_size
from ratchet.lab.certificate import confirmation, loosened, read_certificate, sealed
from ratchet.lab.evaluate import EvaluationRequest, _files_of_user
from ratchet.lab.judge import FEWEST, HANDS_OVER, exit_code, judged
from ratchet.lab.records.evaluation import (
    EvaluationRecord,
    InputSpec,
    Observed,
    Rules,
    SourceFile,
    Timed,
    TimingPlan,
    Violation,
    parse_input,
)

EVEN = (1.0, 1.002, 0.998, 1.003, 0.997, 1.002, 0.998, 1.001, 0.999, 1.0)
"""What scatters from pair to pair, on both sides in another order."""


def seen(
    candidate_ms: float, *, slope_ms: float | None = None, alone_ms: float = 2.0, processes: int = 10, **more: Any
) -> Observed:
    """Ten pairs against a baseline of 2 ms a call; ``slope_ms`` is what a call more takes, where that is another time."""
    slope_ms = candidate_ms if slope_ms is None else slope_ms
    calls = 10
    first_s = (3 * calls * candidate_ms - calls * slope_ms) / 2 * 1e-3
    samples = tuple(
        Timed(
            process=pair * processes // 10,
            calls=calls,
            baseline_s=(0.02 * own, 0.04 * own),
            candidate_s=(first_s * its, (first_s + calls * slope_ms * 1e-3) * its),
        )
        for pair, (own, its) in enumerate(zip(EVEN, reversed(EVEN), strict=True))
    )
    costs = {"round_trip_s": more.pop("round_trip_s", 1e-4), "transport_s": more.pop("transport_s", 0.0)}
    plan = TimingPlan(pairs=10, processes=processes, calls=calls, checked=4, **costs)
    return Observed(
        rules=Rules(), seeds=(1, 2), plan=plan, samples=samples, alone_s=(alone_ms * 1e-3,) * 5, **({"peaks": {"head": 5}} | more)
    )


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("4096x4096", InputSpec(shape=(4096, 4096))),
        ("8:bfloat16", InputSpec(shape=(8,), dtype="bfloat16")),
        ("8:int64:-1..7", InputSpec(shape=(8,), dtype="int64", low=-1, high=7)),
        ("=0.5", InputSpec(number=0.5)),
    ],
)
def test_an_input_is_read(text: str, spec: InputSpec) -> None:
    """A shape, a type, a range of integers, or a number."""
    assert parse_input(text) == spec


@pytest.mark.parametrize("text", ["", "4096by4096", "8:float", "8:int64:7..7", "=x", "8x:float32", "8:float32:1"])
def test_anything_else_is_no_input(text: str) -> None:
    """The error says what could be written."""
    with pytest.raises(ValueError, match=r"is not an? |has no value"):
        parse_input(text)


@pytest.mark.parametrize("text", ["0x0", "2000000000000", "8:int64:0..9223372036854775808", "8:int64:-9223372036854775809..0"])
def test_an_input_that_cannot_be_drawn_is_one_sentence(text: str) -> None:
    """A size of 0, one too large, and values beyond int64 are refused, with what goes."""
    with pytest.raises(ValueError, match=rf"^'{text}' is not an input: sizes go from 1 to [^\n]+$"):
        parse_input(text)


@pytest.mark.parametrize(
    ("text", "limits"), [("8:int8:0..300", "-128 to 127"), ("8:uint8:-1..9", "0 to 255"), ("8:bool:0..3", "0 to 1")]
)
def test_values_that_a_type_does_not_hold_are_refused(text: str, limits: str) -> None:
    """They would be drawn as other values; the largest one is not among what is drawn."""
    with pytest.raises(ValueError, match=f"holds {limits}$"):
        parse_input(text)
    assert parse_input("8:int8:-128..128").high == 128


SHORT = "Inconclusive: {speed}, but the calls are too short to judge: use a larger input."
ALONE = "Not confirmed: {speed}, but against the baseline alone, when the candidate's processes are gone, it is not."
SAME = "As fast as the baseline, within 3 % ({interval})."


@pytest.mark.parametrize(
    ("observed", "verdict", "code", "said"),
    [
        (seen(1.0), "faster", 0, "Faster: {speed}."),
        (seen(0.1), "faster", 0, "Faster: {speed}."),
        (seen(1.0, processes=1), "faster", 0, "Faster: {speed}."),
        (seen(4.0), "slower", 1, "Slower: {speed}."),
        (seen(2.0), "same", 0, SAME),
        (seen(2.02), "same", 0, SAME),
        (seen(1.9), "faster", 0, "Faster: {speed}."),
        (seen(1.9, transport_s=2e-4), "faster", 0, f"Faster: {{speed}}. {HANDS_OVER}"),
        (seen(1.9, transport_s=4e-5), "faster", 0, "Faster: {speed}."),
        (seen(1.98), "faster", 0, "Faster: {speed}."),
        (seen(1.98, processes=FEWEST), "faster", 0, "Faster: {speed}."),
        (seen(1.98, processes=1), "same", 0, SAME),
        (seen(1.0, slope_ms=1.9), "unconfirmed", 3, "Not confirmed: {speed}, but K calls more do not show it."),
        (seen(1.0, slope_ms=0.0), "unconfirmed", 3, "Not confirmed: {speed}, but K calls more do not show it."),
        (seen(1.0, alone_ms=1.01), "unconfirmed", 3, ALONE),
        (seen(0.1).model_copy(update={"alone_s": ()}), "unconfirmed", 3, ALONE),
        (seen(1.5, round_trip_s=5e-3), "inconclusive", 3, SHORT),
        (seen(1.0, round_trip_s=3.9e-3), "faster", 0, "Faster: {speed}."),
        (seen(1.0, trouble="The baseline failed: no"), "not measured", 3, "Not measured: The baseline failed: no"),
        (Observed(rules=Rules(), seeds=()), "not measured", 3, "Not measured: too few pairs."),
    ],
)
def test_the_verdict_follows_from_what_was_seen(observed: Observed, verdict: str, code: int, said: str) -> None:
    """Faster needs the pairs, the slope and the baseline alone to agree; few processes widen the margin; each has its code."""
    found = judged(observed)
    assert (found.verdict, exit_code(found.verdict)) == (verdict, Exit(code))
    figures = (found.speedup or 0, found.speedup_low or 0, found.speedup_high or 0)
    interval = f"95 % interval {figures[1]:.3f} to {figures[2]:.3f}, 10 pairs"
    assert found.headline == said.format(speed=f"{figures[0]:.3f} times as fast ({interval})", interval=interval)


@pytest.mark.parametrize(
    ("candidate_ms", "said"),
    [
        (1.0, "Faster: 2.000 times as fast (95 % interval"),
        (4.0, "Slower: 0.500 times as fast"),
        (1.9, "Faster: 1.053"),
    ],
)
def test_figures_are_times_of_one_call(candidate_ms: float, said: str) -> None:
    """The speed-up with its interval, and what a call takes on both sides, in milliseconds."""
    found = judged(seen(candidate_ms))
    speedup = 2.0 / candidate_ms
    assert said in found.headline
    assert (found.speedup, found.baseline_ms, found.optimized_ms) == pytest.approx((speedup, 2.0, candidate_ms), rel=0.002)
    assert found.speedup_low
    assert found.speedup_high
    assert 0.995 * speedup < found.speedup_low < speedup < found.speedup_high < 1.005 * speedup


def test_the_fewest_pairs_can_show_that_it_is_faster() -> None:
    """Eight that agree are enough."""
    observed = seen(1.0)
    assert judged(observed.model_copy(update={"samples": observed.samples[:FEWEST]})).verdict == "faster"


@pytest.mark.parametrize(("factor", "pairs"), [(2.0, 10), (1.2, 10), (1.0, FEWEST - 1)])
def test_what_scatters_or_is_little_is_inconclusive(factor: float, pairs: int) -> None:
    """A candidate that takes more or less by chance is not called anything else, nor is one of few pairs."""
    observed = seen(2.0)
    wild = [
        one.model_copy(update={"candidate_s": tuple(second * factor ** (-1) ** pair for second in one.candidate_s)})
        for pair, one in enumerate(observed.samples[:pairs])
    ]
    found = judged(observed.model_copy(update={"samples": tuple(wild)}))
    assert found.verdict == "inconclusive"
    assert found.headline.startswith("Inconclusive: ")
    assert found.headline.endswith("; measure on a quieter machine, or with more --pairs.")


@pytest.mark.parametrize(("candidate_ms", "verdict"), [(4.2, "slower"), (3.8, "inconclusive"), (0.1, "inconclusive")])
def test_three_pairs_show_only_what_takes_twice_as_long(candidate_ms: float, verdict: str) -> None:
    """So many are planned where the candidate's first calls took long; nothing else follows from so few."""
    observed = seen(candidate_ms)
    assert judged(observed.model_copy(update={"samples": observed.samples[:3]})).verdict == verdict


def test_a_speed_far_below_one_has_its_digits() -> None:
    """A candidate that takes 4,000 times as long is not 0.000 times as fast."""
    assert judged(seen(8000.0)).headline.startswith("Slower: 0.00025 times as fast (95 % interval 0.00025 to 0.00025, ")


def test_a_violation_has_no_figures_unless_it_is_of_memory() -> None:
    """What was wrong has no speed; what takes too much memory has one."""
    wrong = judged(seen(1.0, violations=(Violation(rule="outputs", message="outputs differ by 1.00e-02"),)))
    assert exit_code(wrong.verdict) is Exit.REGRESSION
    assert (wrong.verdict, wrong.speedup, wrong.headline) == ("violated", None, "Not accepted: outputs differ by 1.00e-02.")
    large = judged(seen(1.0, violations=(Violation(rule="memory", message="peak memory 60MB exceeds limit"),)))
    assert large.verdict == "violated"
    assert large.speedup == pytest.approx(2.0, rel=0.01)


# Certificates.


def record() -> EvaluationRecord:
    """A sealed record of a candidate that is twice as fast."""
    observed = seen(1.0)
    sources = [
        SourceFile(path=f"/{name}.py", sha256="06a1c8e3a76aa2a8d2c1b3ea6a5d6f3c", text=f"{name} = 1\n") for name in ("one", "two")
    ]
    sources = [source.model_copy(update={"sha256": _sha256(source.text)}) for source in sources]
    return sealed(
        EvaluationRecord(
            **judged(observed).model_dump(),
            started_at=datetime(2026, 11, 27, tzinfo=UTC),
            wall_s=9.0,
            command=("evaluate",),
            evaluator="ab",
            environment=describe(None, "cpu", cpu_threads=1),
            baseline=sources[0],
            candidate=sources[1],
            function="kernel",
            inputs=(InputSpec(shape=(4, 4)),),
            observed=observed,
        )
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _leaves(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(document, dict):
        return [leaf for key, value in document.items() for leaf in _leaves(value, (*path, key))]
    if isinstance(document, list):
        return [leaf for key, value in enumerate(document[:1]) for leaf in _leaves(value, (*path, key))]
    return [path]


def _edited(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value * 10 + 1 if isinstance(value, int | float) else f"{value or ''}x"


def test_a_certificate_is_read_again(tmp_path: Path) -> None:
    """As it was written, whole."""
    path = tmp_path / "win.json"
    path.write_text(dumps(record()), encoding="utf-8")
    assert read_certificate(path) == record()


def test_any_edit_is_refused_by_name(tmp_path: Path) -> None:
    """Every leaf of the document, changed alone, is refused with the name of its field."""
    path, document = tmp_path / "win.json", json.loads(dumps(record()))
    for leaf in _leaves(document):
        changed = json.loads(json.dumps(document))
        here = changed
        for key in leaf[:-1]:
            here = here[key]
        here[leaf[-1]] = _edited(here[leaf[-1]])
        path.write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(RecordError) as refused:
            read_certificate(path)
        name = leaf[0] if leaf[0] != "seals" else leaf[1]
        said = {"": "the list of seals", "schema_version": "schema"}.get(name, name)
        assert said in refused.value.message, leaf


SEALED_AGAIN: dict[str, tuple[Callable[[EvaluationRecord], dict[str, Any]], str]] = {
    "a speed-up": (lambda one: {"speedup": 10.0}, "speedup does not follow from the samples"),
    "a verdict": (lambda one: {"verdict": "same"}, "verdict does not follow"),
    "fewer samples": (
        lambda one: (
            {"observed": (fewer := one.observed.model_copy(update={"samples": one.observed.samples[:9]}))}
            | {name: getattr(judged(fewer), name) for name in type(judged(fewer)).model_fields}
        ),
        "observed.samples are not as many",
    ),
    "another source": (
        lambda one: {"candidate": one.candidate.model_copy(update={"text": "two = 2\n"})},
        "the text of /two.py does not match its digest",
    ),
    "no violations": (
        lambda one: {"violations": (Violation(rule="memory", message="much"),)},
        "violations are not those that were observed",
    ),
}


@pytest.mark.parametrize("what", SEALED_AGAIN)
def test_an_edit_that_was_sealed_again_has_to_follow(what: str, tmp_path: Path) -> None:
    """Whoever seals an edited certificate again has to make everything else follow from it."""
    change, said = SEALED_AGAIN[what]
    path = tmp_path / "win.json"
    path.write_text(dumps(sealed(record().model_copy(update=change(record())))), encoding="utf-8")
    with pytest.raises(RecordError, match=said):
        read_certificate(path)


def test_a_file_that_was_opened_must_be_the_same(tmp_path: Path) -> None:
    """A neighbour that has changed since is named."""
    neighbour, path = tmp_path / "ops.py", tmp_path / "win.json"
    neighbour.write_text("A = 1\n", encoding="utf-8")
    path.write_text(dumps(sealed(record().model_copy(update={"files": {str(neighbour): _sha256("A = 1\n")}}))), encoding="utf-8")
    read_certificate(path)
    neighbour.write_text("A = 2\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"ops\.py is not the file that was evaluated"):
        read_certificate(path)


def test_a_certificate_names_no_byte_code_that_python_makes_again(tmp_path: Path) -> None:
    """Of a neighbour its source counts; byte code counts where Python would run it whatever the source is."""
    source, sealed_source = tmp_path / "ops.py", tmp_path / "more.py"
    for path in (source, sealed_source):
        path.write_text("A = 1\n", encoding="utf-8")
    usual = py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    unchecked = py_compile.compile(str(sealed_source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    candidate = SourceFile(path=str(tmp_path / "new.py"), sha256=_sha256(""), text="")
    wanted = EvaluationRequest(candidate, candidate, "kernel", (), None, "", Rules())
    opened = {str(source), str(sealed_source), str(usual), str(unchecked)}
    assert _files_of_user(opened, wanted, tmp_path / "scratch").keys() == opened - {str(usual)}


def test_a_certificate_is_confirmed_by_figures() -> None:
    """The verdict again is not enough: the intervals have to meet. Wide limits are named."""
    assert confirmation(record(), record()) == (True, "Certificate confirmed: faster then, faster now (2.0000 and 2.0000).")
    slower = record().model_copy(update={"speedup": 1.2, "speedup_low": 1.19, "speedup_high": 1.21})
    is_same, said = confirmation(record(), slower)
    assert not is_same
    assert "NOT confirmed" in said
    assert "Their intervals do not meet." in said
    assert loosened(Rules()) == ""
    assert loosened(Rules(rtol=1, atol=1)) == "rtol 1, atol 1"


@pytest.mark.parametrize(("text", "size"), [("4000MB", 4000 << 20), ("1.5 GiB", 3 << 29), ("512KB", 1 << 19), (512, 512)])
def test_a_size_is_read(text: object, size: int) -> None:
    """With a unit of two to the tenth, twentieth or thirtieth, or a number of bytes; anything else says what could be written."""
    assert parse_size(text) == size
    for other in ("much", "4000 mb/s", "4000", True, None):
        with pytest.raises(ValueError, match="write 4000MB"):
            parse_size(other)
