"""Everything that is written to disk or crosses a process, as frozen pydantic models.

Every part of ratchet imports them. The models are pure; `files.py` and `tuning.py` read and write files, `archive.py` reads them.
Docstrings of models and fields go into the JSON Schemas (results/schema), which ``make schema`` writes.
"""
