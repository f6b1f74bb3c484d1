"""Tests here need an NVIDIA GPU; elsewhere they skip and say so. They share the repositories of the end-to-end tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
