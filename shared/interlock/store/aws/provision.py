"""The table, queues and bucket of template.yaml, made by hand where no CloudFormation runs (moto, tests)."""

from __future__ import annotations

import json
from typing import Any

from interlock.config import QUEUES, Config
from interlock.store import rules
from interlock.store.aws.clients import client
from interlock.store.aws.table import INDEX_NAMES
from interlock.store.ports import INDEX_1_PROJECTION, INDEX_2_PROJECTION, INDEX_KEYS

_HOME_OF_S3 = "us-east-1"
"""The one region that a bucket must not name."""
_PROJECTIONS = {1: INDEX_1_PROJECTION, 2: INDEX_2_PROJECTION}


def create_resources(config: Config) -> Config:
    """Make what ``config`` names (names left empty are filled in) and answer the configuration to use."""
    table = config.table or "interlock"
    bucket = config.bucket or f"{table}-blobs"
    _create_table(table)
    _create_bucket(bucket)
    return Config(table=table, bucket=bucket, queue_urls=_create_queues(table))


def _create_table(name: str) -> None:
    attributes = ["pk", "sk", *(attribute for pair in INDEX_KEYS.values() for attribute in pair)]
    dynamodb = client("dynamodb")
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": "S"} for attribute in attributes],
        KeySchema=_schema("pk", "sk"),
        GlobalSecondaryIndexes=[
            {
                "IndexName": INDEX_NAMES[number],
                "KeySchema": _schema(*pair),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(_PROJECTIONS[number])},
            }
            for number, pair in INDEX_KEYS.items()
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    dynamodb.get_waiter("table_exists").wait(TableName=name)
    dynamodb.update_time_to_live(
        TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
    )


def _create_bucket(name: str) -> None:
    s3 = client("s3")
    region = s3.meta.region_name
    request: dict[str, Any] = {"Bucket": name}
    if region != _HOME_OF_S3:
        request["CreateBucketConfiguration"] = {"LocationConstraint": region}
    s3.create_bucket(**request)


def _schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def _create_queues(prefix: str) -> dict[str, str]:
    """Dead-letter queues first, because the others name them."""
    sqs = client("sqs")
    urls: dict[str, str] = {}
    for queue in sorted(QUEUES, key=lambda name: not name.endswith("-dead")):
        attributes: dict[str, Any] = {}
        dead = urls.get(f"{queue}-dead")
        if dead:
            arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
                "QueueArn"
            ]
            policy = {"deadLetterTargetArn": arn, "maxReceiveCount": rules.MAX_RECEIVES}
            attributes["RedrivePolicy"] = json.dumps(policy)
        urls[queue] = sqs.create_queue(QueueName=f"{prefix}-{queue}", Attributes=attributes)["QueueUrl"]
    return urls
