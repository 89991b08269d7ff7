"""Distributed DDL entries in ClickHouse's own text layout (version 5)."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

VERSION = 5
_ESCAPE = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "'": "\\'", "\b": "\\b", "\f": "\\f"}
_UNESCAPE = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f"}


def escape(text: str) -> str:
    """TSV escaping."""
    return "".join(_ESCAPE.get(c, c) for c in text)


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _UNESCAPE.get(m.group(1), m.group(1)), text, flags=re.DOTALL)


def escape_host(host: str) -> str:
    """Escaped for file names: everything but letters, digits and underscore, per byte."""
    return "".join(
        chr(b) if chr(b).isalnum() and b < 128 or b == 0x5F else f"%{b:02X}" for b in host.encode("utf-8")
    )


def unescape_host(text: str) -> str:
    return re.sub(
        rb"%([0-9A-F]{2})", lambda m: bytes([int(m.group(1), 16)]), text.encode("utf-8")
    ).decode("utf-8", "replace")


def host_id(host: str, port: int) -> str:
    return f"{escape_host(host)}:{port}"


def parse_host_id(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return unescape_host(host), int(port)


@dataclass
class Entry:
    query: str
    hosts: list[str]
    initiator: str
    settings: dict[str, str] = field(default_factory=dict)
    initial_query_id: str = ""
    version: int = VERSION

    def text(self) -> str:
        lines = [
            f"version: {self.version}",
            f"query: {escape(self.query)}",
            "hosts: [" + ",".join("'" + h.replace("\\", "\\\\").replace("'", "\\'") + "'" for h in self.hosts) + "]",
            f"initiator: {escape(self.initiator)}",
        ]
        if self.version >= 2:
            pairs = ", ".join(f"{k} = {_field(v)}" for k, v in sorted(self.settings.items()))
            lines.append(f"settings: {pairs}")
        if self.version >= 4:
            lines += ["tracing: 00000000-0000-0000-0000-000000000000", "0", "", "0"]
        if self.version >= 5:
            lines.append(f"initial_query_id: {escape(self.initial_query_id)}")
        return "\n".join(lines) + "\n"


def _field(value: str) -> str:
    if re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def parse(text: str) -> Entry:
    """Reads any of the versions; what it cannot read raises ValueError."""
    lines = text.split("\n")
    values: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(": ")
        if colon:
            values.setdefault(key, value)
        elif line.endswith(":"):
            values.setdefault(line[:-1], "")
    if "version" not in values or "query" not in values or "hosts" not in values:
        raise ValueError("not a DDL entry")
    hosts = [unescape(m) for m in re.findall(r"'((?:[^'\\]|\\.)*)'", values["hosts"])]
    settings = {
        m.group(1): m.group(2) if m.group(2) is not None else unescape(m.group(3))
        for m in re.finditer(r"(\w+) = (?:([^',\s]+)|'((?:[^'\\]|\\.)*)')", values.get("settings", ""))
    }
    return Entry(
        unescape(values["query"]),
        hosts,
        unescape(values.get("initiator", "")),
        settings,
        unescape(values.get("initial_query_id", "")),
        int(values["version"]),
    )
