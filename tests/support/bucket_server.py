"""A bucket on an S3 server on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextlib.contextmanager
def bucket_running() -> Iterator[str]:
    """The URI of a folder in an empty bucket; the programs of this test may use it meanwhile."""
    from pyarrow.fs import FileSystem

    moto: Any = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setitem(os.environ, name, value)
        host, port = server.get_host_and_port()
        uri = f"s3://batches/run?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        uri += "&allow_bucket_creation=true"
        system, _ = FileSystem.from_uri(uri)
        system.create_dir("batches")
        try:
            yield uri
        finally:
            server.stop()


def held(uri: str) -> list[str]:
    """The names of all files in a bucket."""
    from pyarrow.fs import FileSelector, FileSystem

    system, inside = FileSystem.from_uri(uri)
    found = system.get_file_info(FileSelector(inside, recursive=True, allow_not_found=True))
    return sorted(one.path for one in found if one.is_file)
