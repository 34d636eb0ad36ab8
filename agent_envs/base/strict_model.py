"""The base of what is read from files as pydantic models; imported at use, because pydantic takes its time."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Base of what is read from files: exact types, no unknown keys, no NaN."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True
    )
