"""What a caller may send of artifacts."""

from __future__ import annotations

from interlock.edges.models.fields import ArtifactType, Checksum, Fence, Metadata, Model, Uri


class Artifact(Model):
    """A reference to evidence."""

    type: ArtifactType
    uri: Uri
    checksum: Checksum | None = None
    metadata: Metadata | None = None


class ArtifactAttach(Artifact):
    """An artifact to attach; the holder sends its fence."""

    fence: Fence | None = None
