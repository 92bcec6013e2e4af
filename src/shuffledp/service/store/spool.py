"""Where the parts of batches wait: a folder of this machine, or a bucket that several share."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from shuffledp.documents.files import write_whole
from shuffledp.errors import ParameterError
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.store.private import private_folder


def is_bucket(place: str) -> bool:
    """Whether a spool is a URI of an object store, not a folder."""
    return "://" in place


def inside(place: str, folder: str) -> str:
    """The path or URI of a folder in a spool; a URI's settings stay at its end."""
    name, mark, settings = place.partition("?") if is_bucket(place) else (place, "", "")
    return f"{name.rstrip('/')}/{folder}{mark}{settings}"


class Spool(ABC):
    """Files by folder and name, each written whole or not at all."""

    @abstractmethod
    def prepare(self) -> None:
        """Makes the place if needed; raises `ConfigError` if it cannot be written."""

    @abstractmethod
    def write(self, folder: str, name: str, data: bytes) -> None:
        """Writes a file, durably."""

    @abstractmethod
    def read(self, folder: str, name: str) -> bytes | None:
        """A file's content; None if there is none."""

    @abstractmethod
    def remove(self, folder: str) -> None:
        """Removes a folder and everything in it, if it is there."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Free space on its disk; None if there is no such limit."""


class FolderSpool(Spool):
    """A folder of this machine, or of a volume that several share."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def prepare(self) -> None:
        try:
            private_folder(self._path)
        except OSError as error:
            raise ConfigError(
                f"The spool {self._path} cannot be used ({error.strerror}); give the server's user "
                "the right to write there."
            ) from None

    def write(self, folder: str, name: str, data: bytes) -> None:
        place = self._path / folder
        try:
            private_folder(place)
            write_whole(place / name, data, durable=True, secret=True)
        except (OSError, ParameterError):
            raise _unavailable() from None

    def read(self, folder: str, name: str) -> bytes | None:
        try:
            return (self._path / folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            raise _unavailable() from None

    def remove(self, folder: str) -> None:
        shutil.rmtree(self._path / folder, ignore_errors=True)

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(self._path).free


class BucketSpool(Spool):
    """A bucket, or a folder in one, that pyarrow supports: s3://, gs://, hdfs://, …"""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._found: tuple[Any, str] | None = None

    def _system(self) -> tuple[Any, str]:
        from shuffledp.data.sources import file_system

        if self._found is None:
            self._found = file_system(self._uri)
        return self._found

    def prepare(self) -> None:
        probe = "shuffledp-probe"
        try:
            self.write(probe, "empty", b"-")
            self.remove(probe)
        except (StorageUnavailable, ParameterError):
            raise ConfigError(
                "The spool's bucket cannot be written; check its URI, that it exists, and the "
                "credentials in the environment."
            ) from None

    def write(self, folder: str, name: str, data: bytes) -> None:
        system, inside = self._system()
        try:
            with system.open_output_stream(f"{inside}/{folder}/{name}") as out:
                out.write(data)
        except OSError:
            raise _unavailable() from None

    def read(self, folder: str, name: str) -> bytes | None:
        system, inside = self._system()
        try:
            with system.open_input_file(f"{inside}/{folder}/{name}") as file:
                data: bytes = file.read()
                return data
        except FileNotFoundError:
            return None
        except OSError:
            raise _unavailable() from None

    def remove(self, folder: str) -> None:
        system, inside = self._system()
        try:
            system.delete_dir(f"{inside}/{folder}")
        except FileNotFoundError:
            pass
        except OSError:
            raise _unavailable() from None

    def free_bytes(self) -> int | None:
        return None


def open_spool(place: str) -> Spool:
    """The spool at a path or URI."""
    return BucketSpool(place) if is_bucket(place) else FolderSpool(place)


def _unavailable() -> StorageUnavailable:
    return StorageUnavailable(
        "The spool is full or cannot be reached; free space, or bring it back."
    )
