"""`Strict` is the base of pydantic models that are read from files; it is imported at use, because pydantic takes its time."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Base of what is read from files: exact types, no unknown keys, no NaN."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True
    )
