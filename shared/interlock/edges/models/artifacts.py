"""What a caller may send of artifacts."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, model_validator

from interlock.edges.models.fields import (
    ArtifactType,
    Checksum,
    Fence,
    FileName,
    Metadata,
    Model,
    Sha256,
    UploadSize,
    Uri,
)
from interlock.errors import FieldError, InterlockError

_REFERENCE = {"uri": "string", "checksum": "string"}
_UPLOAD = {"name": "string", "size": "integer", "sha256": "string"}
"""Fields of the two forms, with their JSON types."""


def _form(required: dict[str, str], absent: dict[str, str]) -> dict[str, Any]:
    """The schema of one form; null counts as absent."""
    types = required | dict.fromkeys(absent, "null")
    return {"required": list(required), "properties": {name: {"type": kind} for name, kind in types.items()}}


class Artifact(Model):
    """A reference to evidence."""

    type: ArtifactType
    uri: Uri
    checksum: Checksum | None = None
    metadata: Metadata | None = None


class ArtifactAttach(Model):
    """A reference (`uri`, `checksum`) or an upload (`name`, `size` in bytes, `sha256` as 64 hex digits); the holder
    sends its fence."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [_form({"uri": "string"}, _UPLOAD), _form(_UPLOAD, _REFERENCE)],
        }
    )

    type: ArtifactType
    uri: Uri | None = None
    checksum: Checksum | None = None
    metadata: Metadata | None = None
    name: FileName | None = None
    size: UploadSize | None = None
    sha256: Sha256 | None = None
    fence: Fence | None = None

    @model_validator(mode="after")
    def _one_form(self) -> ArtifactAttach:
        if all(getattr(self, name) is None for name in _UPLOAD):
            wrong = (
                {} if self.uri is not None else {"uri": "is required; for an upload: name, size and sha256"}
            )
        else:
            wrong = {name: "is required for an upload" for name in _UPLOAD if getattr(self, name) is None}
            wrong |= {name: "is not for uploads" for name in _REFERENCE if getattr(self, name) is not None}
        if wrong:
            errors = [FieldError(name, message) for name, message in wrong.items()]
            raise InterlockError("invalid", f"not acceptable: {', '.join(wrong)}", errors=errors)
        return self


class Verify(Model):
    """The holder sends its fence."""

    fence: Fence | None = None
