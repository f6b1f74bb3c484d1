"""The environment of foreign code."""

from __future__ import annotations

from ratchet.core.bench.build import without_secrets


def test_without_secrets() -> None:
    """A CI runner's tokens and command files are held back; everything else stays, and the original is not touched."""
    environ = {
        "GITHUB_TOKEN": "x",
        "GITHUB_OUTPUT": "/o",
        "ACTIONS_RUNTIME_TOKEN": "x",
        "RUNNER_TEMP": "/t",
        "PATH": "/bin",
        "MY_GITHUB_NAME": "y",
        "CUDA_HOME": "/cuda",
    }
    assert without_secrets(environ) == {"PATH": "/bin", "MY_GITHUB_NAME": "y", "CUDA_HOME": "/cuda"}
    assert len(environ) == 7
