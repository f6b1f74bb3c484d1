"""The bare name of a kernel, by which launches of two builds are matched."""

from __future__ import annotations

_OPENING, _CLOSING = "<([{", ">)]}"


def bare(name: str) -> str:
    """``void ns::softmax<float, (int)4>(float *, int)`` → ``softmax``: no type, namespace, template arguments or parameters.

    A name that is nothing but brackets stays as it is.
    """
    kept = _outside_brackets(name.replace("(anonymous namespace)", "").replace("operator()", "operator")).strip()
    word = kept.rpartition(" ")[2].rpartition("::")[2].lstrip("*&")
    return word or name.strip()


def _outside_brackets(name: str) -> str:
    """Up to the parameters, without template arguments. An arrow or a comparison is no bracket: they come in operators only."""
    depth = 0
    kept: list[str] = []
    for position, letter in enumerate(name):
        if letter in _OPENING:
            if letter == "(" and depth == 0 and "".join(kept).strip():
                break
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - (name[max(0, position - 1)] != "-"))
        elif depth == 0:
            kept.append(letter)
    return "".join(kept)
