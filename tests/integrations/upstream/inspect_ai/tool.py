from typing import Any

from pydantic import BaseModel


class ToolInfo(BaseModel):
    name: str
    description: str
    parameters: dict[str, Any] = {}


class ToolCall(BaseModel):
    id: str
    function: str
    arguments: dict[str, Any]
