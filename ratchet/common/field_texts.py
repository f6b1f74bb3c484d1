"""Read what stands below the fields of records: the schemas of files and ``ratchet doctor settings`` show it."""

from __future__ import annotations

import ast
import functools
import inspect
from itertools import pairwise
from pathlib import Path


@functools.cache
def field_texts(path: Path) -> dict[tuple[str, str], str]:
    """Return class and field → the docstring below the field, in a file; a class has those of its bases in that file, too."""
    texts: dict[tuple[str, str], str] = {}
    for record in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(record, ast.ClassDef):
            continue
        bases = {base.id for base in record.bases if isinstance(base, ast.Name)}
        texts |= {(record.name, field): text for (base, field), text in texts.items() if base in bases}
        for field, below in pairwise(record.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[record.name, name] = inspect.cleandoc(text)
    return texts
