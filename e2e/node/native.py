"""The native TCP port: just enough of the protocol for the engine's own clusterAllReplicas between members.

Revision 54429 is advertised: settings come as strings, and there is no interserver secret, telemetry or addendum.
"""
from __future__ import annotations

import io
import logging
import socket
import socketserver
import struct
from typing import Callable

from engine import DbError
from native_format import blocks, skip_data, write_string, write_varint

REVISION = 54429
HELLO, QUERY, DATA, CANCEL, PING, TABLES_STATUS, KEEP_ALIVE, SCALAR = 0, 1, 2, 3, 4, 5, 6, 7
S_HELLO, S_DATA, S_EXCEPTION, S_PONG, S_END, S_TABLES_STATUS = 0, 1, 2, 4, 5, 9

# Sent by the other engine's client, and not for SET.
_NOT_SETTABLE = {"dialect", "interactive_delay", "queue_max_wait_ms", "run_query_in_background", "storage_file_read_method"}

log = logging.getLogger("native")
Runner = Callable[[str, dict[str, str], str, str], bytes]


class _Reader:
    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw

    def exact(self, size: int) -> bytes:
        data = self._raw.read(size)
        if data is None or len(data) != size:
            raise EOFError
        return data

    def byte(self) -> int:
        return self.exact(1)[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw_string(self) -> bytes:
        return self.exact(self.varint())

    def string(self) -> str:
        return self.raw_string().decode("utf-8", "surrogateescape")

    def _column(self, type_name: str, rows: int) -> None:
        """Reads a column away; of the types that scalars have, those without a fixed size are read by value."""
        if type_name == "String":
            for _ in range(rows):
                self.raw_string()
        elif type_name.startswith("Nullable("):
            self.exact(rows)
            self._column(type_name[9:-1], rows)
        else:
            self.exact(skip_data(type_name, b"", 0, rows))

    def block(self) -> int:
        """Skips one block (external tables and scalars, neither of which is used) and returns its rows."""
        self.string()  # name
        while field := self.varint():
            self.exact(1 if field == 1 else 4)
        columns, rows = self.varint(), self.varint()
        for _ in range(columns):
            self.string()
            self._column(self.string(), rows)
        return rows


class _Handler(socketserver.StreamRequestHandler):
    server: "NativeServer"
    rbufsize = 65536

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()
        self.reader = _Reader(self.rfile)  # type: ignore[arg-type]

    def handle(self) -> None:
        try:
            while True:
                self._packet(self.reader.varint())
        except (EOFError, ConnectionError, TimeoutError):
            pass

    def _packet(self, packet: int) -> None:
        reader = self.reader
        if packet == HELLO:
            self._hello()
        elif packet == PING:
            self.wfile.write(write_varint(S_PONG))
        elif packet == TABLES_STATUS:
            names = [(reader.raw_string(), reader.raw_string()) for _ in range(reader.varint())]
            answer = write_varint(S_TABLES_STATUS) + write_varint(len(names))
            for database, table in names:
                answer += write_string(database) + write_string(table) + b"\0"
            self.wfile.write(answer)
        elif packet == QUERY:
            self._query()
        elif packet in (DATA, SCALAR):
            reader.block()
        elif packet not in (CANCEL, KEEP_ALIVE):
            raise ConnectionError(f"packet {packet}")

    def _hello(self) -> None:
        reader = self.reader
        reader.string()
        for _ in range(3):
            reader.varint()
        self.database = reader.string()
        reader.string()
        reader.string()
        major, minor, patch = (int(x) for x in self.server.version.split(".")[:3])
        self.wfile.write(
            write_varint(S_HELLO) + write_string("ClickHouse") + write_varint(major) + write_varint(minor)
            + write_varint(REVISION) + write_string("UTC") + write_string(self.server.display_name)
            + write_varint(patch)
        )

    def _client_info(self) -> None:
        reader = self.reader
        if reader.byte() == 0:  # no query kind
            return
        for _ in range(3):
            reader.string()
        interface = reader.byte()
        if interface == 2:  # HTTP: method, user agent
            reader.byte()
            reader.string()
        elif interface == 1:  # TCP: who the first client was
            for _ in range(3):
                reader.string()
            for _ in range(3):
                reader.varint()
        reader.string()  # quota key
        if interface == 1:
            reader.varint()  # patch

    def _query(self) -> None:
        reader = self.reader
        query_id = reader.string()
        self._client_info()
        settings: dict[str, str] = {}
        while name := reader.string():
            reader.varint()
            value = reader.string()
            if name not in _NOT_SETTABLE:
                settings[name] = value
        stage = reader.varint()
        reader.varint()  # compression
        text = reader.string()
        while True:  # scalars and external tables end with an empty block
            packet = reader.varint()
            if packet not in (DATA, SCALAR):
                raise ConnectionError(f"packet {packet} while reading external tables")
            if reader.block() == 0 and packet == DATA:
                break
        log.debug("query %s stage %d: %s %s", query_id, stage, text, settings)
        try:
            payload = self.server.runner(text, settings, self.database, query_id)
            for block in blocks(payload):
                info = b"\x01\x00\x02" + struct.pack("<i", -1) + b"\x00"
                self.wfile.write(write_varint(S_DATA) + write_string("") + info + block)
            self.wfile.write(write_varint(S_END))
        except DbError as error:
            body = error.text(self.server.version)
            self.wfile.write(
                write_varint(S_EXCEPTION) + struct.pack("<i", error.code) + write_string("DB::Exception")
                + write_string(body) + write_string("") + b"\0"
            )


class NativeServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], version: str, display_name: str, runner: Runner) -> None:
        self.version, self.display_name, self.runner = version, display_name, runner
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        log.exception("native connection")
