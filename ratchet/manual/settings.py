"""Describe every setting: its value, its source, its meaning. Reads pyproject.toml, and the source of `Settings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.common.field_texts import field_texts
from ratchet.core import config
from ratchet.core.config import Settings, load_settings, project_of, settings_of_environment, text_of, tool_table


@dataclass(frozen=True)
class SettingOrigin:
    """One setting, as ``ratchet doctor settings`` shows it."""

    name: str
    value: Any
    source: str
    meaning: str


def describe_settings(root: Path, environ: Mapping[str, str], options: Mapping[str, Any], folder: Path) -> list[SettingOrigin]:
    """Return every setting with its value, where that comes from, and what it means. Arguments and errors: `load_settings`."""
    settings = load_settings(root, environ, options, folder)
    texts = field_texts(Path(config.__file__))
    path = project_of(root, folder) / "pyproject.toml"
    given = tool_table(text_of(path), str(path)) or {}
    variables = settings_of_environment(environ)
    values = settings.model_dump(mode="json")
    shown = []
    for name in Settings.model_fields:
        source = f"RATCHET_{name.upper()}" if name in variables else str(path) if name in given else "default"
        source = "option" if options.get(name) is not None else source
        meaning = " ".join(texts.get((Settings.__name__, name), "").replace("``", "").split())
        shown.append(SettingOrigin(name, values[name], source, meaning))
    return shown
