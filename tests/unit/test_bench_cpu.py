"""This repository's own benchmarks, on the CPU."""

import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from ratchet import Benchmark

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
CASES = [(name, config) for name, each in BENCHMARKS.items() for config in each.configs["cpu"]]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(7)


@pytest.mark.parametrize(("name", "config"), CASES)
def test_cpu_config_agrees_with_its_reference(name: str, config: str) -> None:
    """Every CPU config builds, runs, and agrees with its float64 reference to 1e-4, or to its own limit."""
    made = BENCHMARKS[name]
    workload = made(device=CPU, **made.configs["cpu"][config])
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


def test_attention_tunings_are_in_the_space() -> None:
    """Every head size of the GPU configs has a tuning, made of values that the search may choose."""
    module = _load("attention")
    for config in module.CONFIGS.values():
        tuning = module.TUNING[config["head_dim"]]
        assert all(value in module.TUNE[name] for name, value in tuning.items())
        assert set(tuning) == set(module.TUNE)


@pytest.mark.parametrize("columns", [0, 6, 2052])
def test_normalize_refuses_columns(columns: int) -> None:
    """Rows that cannot be read 16 bytes at a time, or do not fit a warp's registers, are refused."""
    with pytest.raises(ValueError, match="multiple of 4"):
        BENCHMARKS["normalize"](device=CPU, rows=2, columns=columns)


def test_script_hands_its_configs_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script is `ratchet run` with its configs and its device."""
    seen: list[Any] = []
    command = types.ModuleType("ratchet.cli")
    command.main = seen.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ratchet.cli", command)
    script = _load("integrated_test")
    script.main(["--config", "training_512", "--config", "copy", "--device", "cpu"])
    script.main([])
    assert seen == [["run", "training_512", "copy", "--device", "cpu"], ["run"]]


def test_script_without_ratchet() -> None:
    """Where ratchet is not installed, the script says in one sentence what to run."""
    command = [sys.executable, "-S", "-E", str(BENCH / "integrated_test.py"), "--config", "training_512"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=BENCH)
    assert done.returncode == 2
    assert done.stderr.startswith("ratchet is not installed: run `")
    assert len(done.stderr.splitlines()) == 1


def test_script_keeps_the_standard_library(tmp_path: Path) -> None:
    """While the script runs, `copy` is the standard library's and not bench/copy.py."""
    (tmp_path / "ratchet").mkdir()
    (tmp_path / "ratchet" / "cli.py").write_text("import copy\ndef main(arguments): print(copy.copy(arguments))\n")
    command = [sys.executable, "-S", str(BENCH / "integrated_test.py"), "--config", "training_512"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == "['run', 'training_512']\n"
