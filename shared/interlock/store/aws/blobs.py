"""The blob port on S3."""

from __future__ import annotations

from interlock.store.aws import failures
from interlock.store.aws.clients import client


class S3Blobs:
    """Objects of one bucket; see :class:`interlock.store.ports.Blobs`."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def put(self, key: str, data: bytes) -> None:
        """Store."""
        with failures.translated():
            client("s3").put_object(Bucket=self._bucket, Key=key, Body=data)

    def get(self, key: str) -> bytes | None:
        """The bytes, or None. Needs s3:ListBucket too: without it S3 answers "denied" for a missing key."""
        from botocore.exceptions import ClientError

        with failures.translated():
            try:
                answer = client("s3").get_object(Bucket=self._bucket, Key=key)
                data: bytes = answer["Body"].read()
            except ClientError as error:
                if failures.code_of(error) not in ("NoSuchKey", "404"):
                    raise
                return None
        return data
