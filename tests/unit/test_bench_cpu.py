"""This repository's own benchmarks, on the CPU."""

import importlib.util
import inspect
import itertools
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from ratchet import Benchmark

pytestmark = pytest.mark.no_cover

BENCH = Path(__file__).parents[2] / "bench"
CPU = torch.device("cpu")


def _load(name: str) -> types.ModuleType:
    # Under a name of its own: other tests may import a folder called bench from elsewhere.
    spec = importlib.util.spec_from_file_location(f"cpu_test_of_{name}", BENCH / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARKS: dict[str, Benchmark] = {name: getattr(_load(name), name) for name in ("attention", "copy", "matmul", "normalize")}
CASES = [
    (name, config, variant)
    for name, each in BENCHMARKS.items()
    for config in each.configs["cpu"]
    for variant in each.variants or (None,)
]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "config", "variant"), CASES)
def test_cpu_config_agrees_with_its_reference(name: str, config: str, variant: str | None) -> None:
    """Every CPU config builds, runs, and agrees with its float64 reference to 1e-4, or to its own limit: in each variant."""
    made = BENCHMARKS[name]
    workload = made(device=CPU, **made.configs["cpu"][config], **({"variant": variant} if variant else {}))
    reference = workload.reference()
    out = workload.run(**workload.tuning)
    assert reference.dtype == torch.float64
    assert str(out.dtype) == f"torch.{workload.dtype}"
    assert out.shape == reference.shape
    error = ((out.double() - reference).norm() / reference.norm()).item()
    assert error <= workload.tolerance.get(workload.dtype, 1e-4)


@pytest.mark.parametrize(
    ("name", "parameters", "flops", "size"),
    [
        # Two products of 2 × 8 × 8 × 16 for each of 6 heads, halved by the mask; q, k, v and out of 6 × 8 × 16 floats.
        ("attention", {"batch": 2, "heads": 3, "seq": 8, "head_dim": 16}, 2 * 2 * 8 * 8 * 16 * 6 / 2, 4 * 6 * 8 * 16 * 4),
        ("normalize", {"rows": 3, "columns": 8}, 3 * (6 * 8 + 1), 8 * 3 * 8),
        ("matmul", {"size": 4}, 4 * 4 * (4 + 4), 3 * 16 * 4),
        ("copy", {"mib": 1}, 0, 2 << 20),
    ],
)
def test_declared_work(name: str, parameters: dict[str, int], flops: float, size: float) -> None:
    """The declared FLOPs and bytes are what the mathematics needs, by hand at tiny sizes."""
    workload = BENCHMARKS[name](device=CPU, **parameters)
    assert workload.flops == flops
    assert workload.bytes == size


def test_attention_reference_is_causal_attention() -> None:
    """The reference agrees with torch's own attention in float64, also where it takes a few heads at a time."""
    module = _load("attention")
    module.REFERENCE_LOGITS = 2 * 24 * 24
    q, k, v = (torch.randn(1, 5, 24, 8, dtype=torch.float64) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(module._reference(q, k, v), expected, rtol=1e-12, atol=1e-12)


def test_attention_has_a_parameter_to_tune_without_a_gpu() -> None:
    """On the CPU, training_512 takes so many heads at a time: any number of them gives the same result as all at once."""
    made = BENCHMARKS["attention"]
    workload = made(device=CPU, **made.configs["cpu"]["training_512"], variant="ours")
    today = workload.run(**workload.tuning)
    assert len(workload.tune["HEADS"]) > 1
    for heads in workload.tune["HEADS"]:
        torch.testing.assert_close(workload.run(HEADS=heads), today, rtol=1e-5, atol=1e-6)
    assert not made(device=CPU, **made.configs["cpu"]["training_512"], variant="torch").tune


def test_attention_tunings_are_in_the_space() -> None:
    """Every head size of the GPU configs has a tuning, made of values that the search may choose."""
    module = _load("attention")
    for config in module.CONFIGS.values():
        tuning = module.TUNING[config["head_dim"]]
        assert all(value in module.TUNE[name] for name, value in tuning.items())
        assert set(tuning) == set(module.TUNE)


@pytest.mark.parametrize(
    ("head_dim", "tile", "held"),
    [
        (64, {"BLOCK_M": 64, "BLOCK_N": 64, "NUM_STAGES": 3}, 57344),
        (128, {"BLOCK_M": 128, "BLOCK_N": 64, "NUM_STAGES": 3}, 131072),
        (64, {"BLOCK_M": 256, "BLOCK_N": 128, "NUM_STAGES": 5}, 196608),
    ],
)
def test_attention_s_shared_memory(head_dim: int, tile: dict[str, int], held: int) -> None:
    """The constraint asks for the bytes that Triton reports of the kernel compiled for Hopper, and not for one more."""
    module = _load("attention")
    fits, _ = module._constraints(head_dim, 2, module.Limits(held, True))
    too_many, _ = module._constraints(head_dim, 2, module.Limits(held - 1, True))
    assert fits(**tile)
    assert not too_many(**tile)


@pytest.mark.parametrize("shared", [232448, 166912, 101376])
def test_attention_s_default_is_possible(shared: int) -> None:
    """On Hopper, Ampere and Ada the constraints leave today's tuning, and more than fifty others."""
    module = _load("attention")
    for head_dim, tuning in module.TUNING.items():
        constraints = module._constraints(head_dim, 2, module.Limits(shared, shared == 232448))
        assert _holds(constraints, tuning)
        assert sum(_holds(constraints, each) for each in _product(module.TUNE)) > 50


@pytest.mark.parametrize(("columns", "valid"), [(128, 88), (256, 82), (512, 66), (1024, 44)])
def test_normalize_s_registers(columns: int, valid: int) -> None:
    """The constraint leaves what ptxas compiles for Hopper without a spill, and today's tuning."""
    module = _load("normalize")
    constraints = module._constraints(columns)
    assert _holds(constraints, module.TUNING)
    assert sum(_holds(constraints, each) for each in _product(module.TUNE)) == valid


def _product(tune: dict[str, tuple[int, ...]]) -> list[dict[str, int]]:
    return [dict(zip(tune, values, strict=True)) for values in itertools.product(*tune.values())]


def _holds(constraints: Any, tuning: dict[str, int]) -> bool:
    return all(each(**{name: tuning[name] for name in inspect.signature(each).parameters}) for each in constraints)


@pytest.mark.parametrize("columns", [0, 6, 2052])
def test_normalize_refuses_columns(columns: int) -> None:
    """Rows that cannot be read 16 bytes at a time, or do not fit a warp's registers, are refused."""
    with pytest.raises(ValueError, match="multiple of 4"):
        BENCHMARKS["normalize"](device=CPU, rows=2, columns=columns)


def test_script_hands_its_configs_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script is `ratchet run` with its configs and its device."""
    seen: list[Any] = []
    command = types.ModuleType("ratchet.core.cli")
    command.main = seen.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ratchet.core.cli", command)
    script = _load("integrated_test")
    script.main(["--config", "training_512", "--config", "copy", "--device", "cpu"])
    script.main(["--output", "current.json"])
    script.main([])
    assert seen == [["run", "training_512", "copy", "--device", "cpu"], ["run", "--seed-format", "current.json"], ["run"]]


LISTED = [
    {"name": "attention/training_512", "skipped": None, "failures": []},
    {"name": "gemm/training_512", "skipped": None, "failures": []},
    {"name": "copy/training_512", "skipped": "needs nvcc", "failures": []},
]


@pytest.mark.parametrize(
    ("listed", "codes", "expected"),
    [(LISTED, [0, 2], 0), (LISTED, [2, 2], 2), (LISTED, [0, 3], 3), (LISTED[2:], [], 3), (LISTED[:1], [0], 0)],
)
def test_autotune_script(monkeypatch: pytest.MonkeyPatch, listed: list[Any], codes: list[int], expected: int) -> None:
    """The script tunes every case of a config that this machine can run, and they share the minutes of its budget.

    A case without parameters to tune is no failure as long as another was tuned; tuning nothing is one.
    """
    seen: list[list[str]] = []
    left = list(codes)

    def ratchet(words: list[str]) -> int:
        if words[0] == "list":
            sys.stdout.write(json.dumps(listed))
            return 0
        seen.append(words)
        return left.pop(0)

    command = types.ModuleType("ratchet.core.cli")
    command.main = ratchet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ratchet.core.cli", command)
    assert _load("autotune").main(["--config", "training_512", "--time-budget", "20", "--seed", "1"]) == expected
    each = "600s" if len(codes) == 2 else "1200s"
    names = [case["name"] for case in listed if not case["skipped"]]
    assert seen == [["tune", name, "--time-budget", each, "--seed", "1"] for name in names]


@pytest.mark.parametrize("script", ["integrated_test.py", "autotune.py"])
def test_script_without_ratchet(script: str) -> None:
    """Where ratchet is not installed, the script says in one sentence what to run."""
    command = [sys.executable, "-S", "-E", str(BENCH / script), "--config", "training_512"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=BENCH)
    assert done.returncode == 2
    assert done.stderr.startswith("ratchet is not installed: run `")
    assert len(done.stderr.splitlines()) == 1


def test_script_keeps_the_standard_library(tmp_path: Path) -> None:
    """While the script runs, `copy` is the standard library's and not bench/copy.py."""
    (tmp_path / "ratchet" / "core").mkdir(parents=True)
    (tmp_path / "ratchet" / "core" / "cli.py").write_text("import copy\ndef main(arguments): print(copy.copy(arguments))\n")
    command = [sys.executable, "-S", str(BENCH / "integrated_test.py"), "--config", "training_512"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == "['run', 'training_512']\n"
