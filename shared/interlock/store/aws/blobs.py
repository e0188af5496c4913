"""The blob port on S3.

Uploads and downloads go past the bus, by presigned requests. Whoever uploads sends every signed header as it was
signed, so S3 itself sees to length, SHA-256 and "no second object"; and it keeps the SHA-256 that it has checked.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from interlock.domain.files import disposition
from interlock.store.aws import failures
from interlock.store.aws.clients import client
from interlock.store.ports import Stored, Upload

TAG = "interlock-upload"
UNVERIFIED, VERIFIED = "unverified", "verified"
"""The bucket's lifecycle rule removes what is tagged as unverified."""
_AT_ONCE = 16
_MISSING = frozenset({"404", "403", "NoSuchKey", "NotFound"})


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

    def upload(self, key: str, *, size: int, sha256: str, seconds: int, base: str) -> Upload:  # noqa: ARG002  it has its own address
        """See :class:`interlock.store.ports.Blobs`. S3 judges the time at the beginning of the request."""
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        tag = f"{TAG}={UNVERIFIED}"
        signed = {
            "ContentLength": size,
            "ChecksumAlgorithm": "SHA256",  # S3 goes by the next one; moto wants to be told
            "ChecksumSHA256": checksum,
            "IfNoneMatch": "*",
            "Tagging": tag,
        }
        headers = {
            "content-length": str(size),
            "x-amz-sdk-checksum-algorithm": "SHA256",
            "x-amz-checksum-sha256": checksum,
            "if-none-match": "*",
            "x-amz-tagging": tag,
        }
        return Upload("PUT", self._presigned("put_object", key, seconds, signed), headers)

    def download(self, key: str, *, name: str, seconds: int, base: str) -> str:  # noqa: ARG002  as above
        """See :class:`interlock.store.ports.Blobs`."""
        answered = {
            "ResponseContentDisposition": disposition(name),
            "ResponseContentType": "application/octet-stream",
        }
        return self._presigned("get_object", key, seconds, answered)

    def stat(self, keys: Sequence[str]) -> dict[str, Stored]:
        """See :class:`interlock.store.ports.Blobs`.

        Functions have no s3:ListBucket, so S3 answers 403 for a missing object. Both mean that there is nothing
        which this process could vouch for.
        """
        if len(keys) <= 1:
            found = [self._head(key) for key in keys]
        else:
            with ThreadPoolExecutor(min(len(keys), _AT_ONCE)) as pool:
                found = list(pool.map(self._head, keys))
        return {key: stored for key, stored in zip(keys, found, strict=True) if stored is not None}

    def keep(self, key: str) -> None:
        """See :class:`interlock.store.ports.Blobs`."""
        tags = {"TagSet": [{"Key": TAG, "Value": VERIFIED}]}
        with failures.translated():
            client("s3").put_object_tagging(Bucket=self._bucket, Key=key, Tagging=tags)

    def _presigned(self, operation: str, key: str, seconds: int, params: Mapping[str, Any]) -> str:
        with failures.translated():
            url: str = client("s3").generate_presigned_url(
                operation, Params={"Bucket": self._bucket, "Key": key, **params}, ExpiresIn=seconds
            )
        return url

    def _head(self, key: str) -> Stored | None:
        from botocore.exceptions import ClientError

        with failures.translated():
            try:
                answer = client("s3").head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED")
            except ClientError as error:
                if failures.code_of(error) not in _MISSING:
                    raise
                return None
        return Stored(int(answer["ContentLength"]), _hex(answer.get("ChecksumSHA256")))


def _hex(checksum: str | None) -> str | None:
    """A checksum of S3 as hex; None for one of parts, which says nothing about the whole object."""
    try:
        raw = base64.b64decode(checksum or "", validate=True)
    except binascii.Error:
        return None
    return raw.hex() if len(raw) == 32 else None
