"""Everything that is written to disk or crosses a process, as frozen pydantic models.

The base of all, `Record`, is frozen, and accepts nothing unknown, no NaN and no infinity. Docstrings of models and fields go into
the JSON Schemas (results/schema), which ``make schema`` writes.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
"""The version that files carry; a file with a higher one was written by a newer ratchet and is refused."""

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


RULES = ConfigDict(extra="forbid", allow_inf_nan=False)
"""Without `use_attribute_docstrings`: reading the source of each record took a tenth of the start of a command.

`ratchet.common.schema` puts what stands below a field into the schemas.
"""


class Record(BaseModel):
    """A value that is written to disk or crosses a process."""

    model_config = RULES | ConfigDict(frozen=True)
