"""Finds the block boundaries in FORMAT Native output, which carries no lengths: walks the column types."""
from __future__ import annotations

import re
import struct
from typing import Iterator

_FIXED = {
    "UInt8": 1, "Int8": 1, "Bool": 1, "UInt16": 2, "Int16": 2, "UInt32": 4, "Int32": 4, "UInt64": 8, "Int64": 8,
    "UInt128": 16, "Int128": 16, "UInt256": 32, "Int256": 32, "Float32": 4, "Float64": 8, "BFloat16": 2,
    "Date": 2, "Date32": 4, "DateTime": 4, "UUID": 16, "IPv4": 4, "IPv6": 16, "Enum8": 1, "Enum16": 2,
    "DateTime64": 8, "Decimal32": 4, "Decimal64": 8, "Decimal128": 16, "Decimal256": 32, "Nothing": 1,
    "Time": 4, "Time64": 8,
}


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_string(value: str | bytes) -> bytes:
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return write_varint(len(raw)) + raw


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def string_at(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = varint_at(data, at)
    return data[at : at + size], at + size


def split_type(name: str) -> tuple[str, list[str]]:
    """Map(String, Array(UInt8)) -> Map, [String, Array(UInt8)]; commas in strings and brackets do not split."""
    if "(" not in name:
        return name, []
    base, inner = name.split("(", 1)
    inner = inner[: inner.rindex(")")]
    parts, depth, start, quoted, i = [], 0, 0, "", 0
    while i < len(inner):
        char = inner[i]
        if quoted:
            if char == "\\":
                i += 1
            elif char == quoted:
                quoted = ""
        elif char in "'`\"":
            quoted = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(inner[start:i].strip())
            start = i + 1
        i += 1
    parts.append(inner[start:].strip())
    return base, parts


def _element(part: str) -> str:
    """The type in a tuple element, which may be named."""
    match = re.match(r"(?:`(?:[^`\\]|\\.)*`|\w+) (.+)", part, re.DOTALL)
    return match.group(1) if match else part


def _skip_low_cardinality(name: str, data: bytes, at: int, rows: int) -> int:
    if not rows:
        return at
    flags, keys = struct.unpack_from("<QQ", data, at)
    at += 16
    if name.startswith("Nullable("):
        name = split_type(name)[1][0]
    at = skip_data(name, data, at, keys)
    count = int(struct.unpack_from("<Q", data, at)[0])
    return at + 8 + count * int(1 << (flags & 0xFF))


def _prefix(name: str, data: bytes, at: int) -> int:
    """The version word that LowCardinality columns put in front of everything."""
    base, parts = split_type(name)
    if base == "LowCardinality":
        return at + 8
    if base in ("Nullable", "Array", "Map", "Tuple", "Nested"):
        for part in parts:
            at = _prefix(_element(part) if base in ("Tuple", "Nested") else part, data, at)
    return at


def skip_data(name: str, data: bytes, at: int, rows: int) -> int:
    base, parts = split_type(name)
    if base == "String":
        for _ in range(rows):
            size, at = varint_at(data, at)
            at += size
        return at
    if base in _FIXED:
        return at + _FIXED[base] * rows
    if base == "FixedString":
        return at + int(parts[0]) * rows
    if base == "Decimal":
        digits = int(parts[0])
        return at + (4 if digits <= 9 else 8 if digits <= 18 else 16 if digits <= 38 else 32) * rows
    if base == "Nullable":
        return skip_data(parts[0], data, at + rows, rows)
    if base == "LowCardinality":
        return _skip_low_cardinality(parts[0], data, at, rows)
    if base in ("Array", "Map", "Nested"):
        total = int(struct.unpack_from("<Q", data, at + 8 * (rows - 1))[0]) if rows else 0
        at += 8 * rows
        for part in parts:
            at = skip_data(_element(part) if base == "Nested" else part, data, at, total)
        return at
    if base == "Tuple":
        for part in parts:
            at = skip_data(_element(part), data, at, rows)
        return at if parts else at + rows
    if base.startswith("Interval"):
        return at + 8 * rows
    raise ValueError(f"type {name} is not known to the Native walker")


def blocks(data: bytes) -> Iterator[bytes]:
    """The blocks of a FORMAT Native stream."""
    at = 0
    while at < len(data):
        start = at
        columns, at = varint_at(data, at)
        rows, at = varint_at(data, at)
        for _ in range(columns):
            _, at = string_at(data, at)
            type_name, at = string_at(data, at)
            name = type_name.decode()
            if rows:
                at = skip_data(name, data, _prefix(name, data, at), rows)
        yield data[start:at]
