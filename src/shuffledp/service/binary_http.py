"""Requests and responses as binary HTTP (RFC 9292, known length), padded with zeros."""

from __future__ import annotations

from dataclasses import dataclass, field

from shuffledp.errors import ParameterError

REQUEST_FRAME, RESPONSE_FRAME = 0, 1
MOST_FIELDS = 64
MOST_FIELD_BYTES = 16 << 10
Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True)
class BinaryRequest:
    """A request."""

    method: str
    authority: str
    path: str
    fields: Fields = field(default_factory=list)
    content: bytes = b""
    scheme: str = "https"

    def to_bytes(self, multiple: int = 1) -> bytes:
        """The encoded message, padded to a multiple of `multiple` bytes."""
        words = (self.method, self.scheme, self.authority, self.path)
        head = b"".join(_sized(word.encode()) for word in words)
        return _padded(_number(REQUEST_FRAME) + head + _rest(self.fields, self.content), multiple)


@dataclass(frozen=True)
class BinaryResponse:
    """A response."""

    status: int
    fields: Fields = field(default_factory=list)
    content: bytes = b""

    def to_bytes(self, multiple: int = 1) -> bytes:
        """The encoded message, padded to a multiple of `multiple` bytes."""
        data = _number(RESPONSE_FRAME) + _number(self.status) + _rest(self.fields, self.content)
        return _padded(data, multiple)


def read_request(data: bytes) -> BinaryRequest:
    """The request in some bytes; raises `ParameterError` if there is none."""
    reader = _Reader(data)
    if reader.number() != REQUEST_FRAME:
        raise _malformed()
    method, scheme, authority, path = (reader.text() for _ in range(4))
    fields, content = reader.rest()
    return BinaryRequest(
        method=method, scheme=scheme, authority=authority, path=path, fields=fields, content=content
    )


def read_response(data: bytes) -> BinaryResponse:
    """The final response in some bytes; raises `ParameterError` if there is none."""
    reader = _Reader(data)
    if reader.number() != RESPONSE_FRAME:
        raise _malformed()
    status = reader.number()
    if not 200 <= status <= 599:  # no informational responses are sent here
        raise _malformed()
    return BinaryResponse(status, *reader.rest())


def _malformed() -> ParameterError:
    return ParameterError("This is not a binary HTTP message of known length (RFC 9292); send one.")


def _number(value: int) -> bytes:
    """A whole number of variable length (RFC 9000 §16)."""
    for length, limit in ((1, 1 << 6), (2, 1 << 14), (4, 1 << 30), (8, 1 << 62)):
        if value < limit:
            marked = value | (length.bit_length() - 1) << (8 * length - 2)
            return marked.to_bytes(length, "big")
    raise _malformed()


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _rest(fields: Fields, content: bytes) -> bytes:
    """Header, content and an empty trailer."""
    return _sized(b"".join(_sized(name) + _sized(value) for name, value in fields)) + (
        _sized(content) + _number(0)
    )


def _padded(data: bytes, multiple: int) -> bytes:
    return data + bytes(-len(data) % multiple)


class _Reader:
    """Reads a message part by part. Empty parts at its end may be missing (RFC 9292 §3.8)."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) != size:
            raise _malformed()
        self._at += size
        return part

    def number(self) -> int:
        first = self._take(1)
        length = 1 << (first[0] >> 6)
        whole = first + self._take(length - 1)
        return int.from_bytes(whole, "big") & ((1 << (8 * length - 2)) - 1)

    def sized(self) -> bytes:
        return self._take(self.number())

    def text(self) -> str:
        try:
            return self.sized().decode("ascii")
        except UnicodeError:
            raise _malformed() from None

    def _part(self) -> bytes:
        """A part that may be missing at the end."""
        return self.sized() if self._at < len(self._data) else b""

    def rest(self) -> tuple[Fields, bytes]:
        """Header fields and content; the trailer is not used, and padding must be zeros."""
        fields, content = _fields(self._part()), self._part()
        self._part()
        if any(self._data[self._at :]):
            raise _malformed()
        return fields, content


def _fields(data: bytes) -> Fields:
    if len(data) > MOST_FIELD_BYTES:
        raise _malformed()
    reader, found = _Reader(data), []
    while reader._at < len(data):
        found.append((reader.sized(), reader.sized()))
        if len(found) > MOST_FIELDS:
            raise _malformed()
    return found
