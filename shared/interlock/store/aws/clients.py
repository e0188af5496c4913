"""Clients of the AWS services, made on first use: importing an adapter imports neither boto3 nor botocore.

Endpoint, region and credentials come from the environment (``AWS_ENDPOINT_URL`` leads to any other
implementation). botocore alone is loaded, without boto3's resources: a Lambda function starts sooner.
"""

from __future__ import annotations

import functools
import os
from typing import Any

CONNECT_TIMEOUT = 1
READ_TIMEOUT = 3
"""Seconds; a call is tried ``ATTEMPTS`` times before the store counts as unavailable."""
ATTEMPTS = 3
CONNECTIONS = 32


@functools.cache
def client(service: str) -> Any:
    """The process's client of a service. ``client.cache_clear()`` forgets them all when the environment changed."""
    import botocore.session
    from botocore.config import Config

    return botocore.session.Session().create_client(
        service,
        config=Config(
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=CONNECTIONS,
            parameter_validation=False,  # requests are made by this package only, from checked values
            account_id_endpoint_mode="disabled",  # other implementations do not know these host names
            tcp_keepalive=True,
            **(_S3 if service == "s3" else {}),
            **(_VIRTUAL if service == "s3" and not _elsewhere() else {}),
        ),
    )


_S3: dict[str, Any] = {"signature_version": "s3v4"}
"""Presigned requests must be signed so; botocore's default for them is older."""
_VIRTUAL: dict[str, Any] = {"s3": {"addressing_style": "virtual"}}
"""Presigned requests name the bucket's own regional host: the global one redirects, which no signature survives."""


def _elsewhere() -> bool:
    """Whether S3 is another implementation, where the bucket is part of the path."""
    return any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"))
