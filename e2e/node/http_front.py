"""The HTTP port, as far as clients of a ClickHouse server can tell."""
from __future__ import annotations

import base64
import email
import email.message
import logging
import socket
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Optional
from urllib.parse import parse_qsl, urlsplit

from engine import DbError
from sqltext import is_write, kind

log = logging.getLogger("http")

# Parameters of the protocol; everything else is a setting.
_RESERVED = {
    "query", "query_id", "database", "default_format", "user", "password", "wait_end_of_query", "buffer_size",
    "compress", "decompress", "session_id", "session_timeout", "session_check", "quota_key", "role",
    "enable_http_compression", "send_progress_in_http_headers", "http_wait_end_of_query", "http_response_buffer_size",
}
# As the server maps them; every other code is 500.
_STATUS = {
    516: 403, 193: 403, 192: 403, 511: 403, 62: 400, 53: 400, 117: 400, 69: 400, 321: 413, 48: 501, 159: 408,
    60: 404, 46: 404, 47: 404, 50: 404, 56: 404, 81: 404, 115: 404, 209: 503, 76: 503,
}

Execute = Callable[["Request"], bytes]


class Request:
    """One statement as it arrived."""

    def __init__(self, sql: str, params: dict[str, str], user: str, method: str) -> None:
        self.sql = sql
        self.user = user
        self.query_id = params.get("query_id") or str(uuid.uuid4())
        self.database = params.get("database") or "default"
        self.format = params.get("default_format") or "TabSeparated"
        self.settings = {
            k: v for k, v in params.items() if k not in _RESERVED and not k.startswith("param_")
        }
        self.params = {k: v for k, v in params.items() if k.startswith("param_")}
        # The engine's session could not leave readonly again, so the front enforces it.
        self.readonly = self.settings.pop("readonly", "0") or "0"
        if method == "GET" and self.readonly == "0":
            self.readonly = "2"
        self.started = time.time()

    def check_readonly(self) -> None:
        if self.readonly != "0" and is_write(self.sql):
            raise DbError(
                164,
                f"{self.user}: Cannot execute query in readonly mode. For queries over HTTP, method GET implies "
                "readonly. You should use method POST for modifying queries.",
                "READONLY",
            )


class QueryLog:
    """Statements that reached this front, for counting from outside, and those running now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        self._running: dict[int, Request] = {}

    def start(self, request: Request) -> dict[str, Any]:
        row = {
            "query_id": request.query_id,
            "kind": kind(request.sql),
            "query": request.sql,
            "user": request.user,
            "time": request.started,
            "settings": dict(request.settings),
            "code": None,
            "seconds": None,
        }
        with self._lock:
            self._rows.append(row)
            self._running[id(request)] = request
        return row

    def finish(self, request: Request, row: dict[str, Any], code: int) -> None:
        with self._lock:
            row["code"], row["seconds"] = code, round(time.time() - request.started, 4)
            self._running.pop(id(request), None)

    def rows(self) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(row) for row in self._rows]

    def running(self) -> list[Request]:
        with self._lock:
            return list(self._running.values())

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()


class Users:
    """Names and passwords; changed at run time by the admin port."""

    def __init__(self, passwords: dict[str, str]) -> None:
        self._passwords = dict(passwords)

    def set(self, name: str, password: Optional[str]) -> None:
        if password is None:
            self._passwords.pop(name, None)
        else:
            self._passwords[name] = password

    def check(self, name: str, password: str) -> None:
        if self._passwords.get(name) != password:
            raise DbError(
                516,
                f"{name}: Authentication failed: password is incorrect, or there is no user with such name.",
                "AUTHENTICATION_FAILED",
            )


def _form(content_type: str, body: bytes) -> dict[str, str]:
    """The fields of a form: the client sends query and parameters that way when there are parameters."""
    message = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    fields = {}
    for part in message.get_payload():
        assert isinstance(part, email.message.Message)
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content.decode("utf-8", "surrogateescape")
    return fields


class _Handler(BaseHTTPRequestHandler):
    server: "HttpFront"
    protocol_version = "HTTP/1.1"
    server_version = "ClickHouse"
    sys_version = ""
    wbufsize = 1 << 20  # head and body leave in one piece

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_HEAD = do_GET

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            out = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                out += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return out
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _credentials(self, params: dict[str, str]) -> tuple[str, str]:
        header = self.headers.get("Authorization", "")
        if header.lower().startswith("basic "):
            user, _, password = base64.b64decode(header[6:]).decode("utf-8").partition(":")
            return user, password
        if "X-ClickHouse-User" in self.headers or "X-ClickHouse-Key" in self.headers:
            user = self.headers.get("X-ClickHouse-User", "default")
            key = self.headers.get("X-ClickHouse-Key", "")
            # header values arrive as latin-1 although they may hold UTF-8
            return user.encode("latin-1").decode("utf-8"), key.encode("latin-1").decode("utf-8")
        return params.get("user", "default"), params.get("password", "")

    def _serve(self) -> None:
        split = urlsplit(self.path)
        body = self._body()
        if split.path in ("/ping", "/replicas_status"):
            return self._answer(200, b"Ok.\n", {})
        params = dict(parse_qsl(split.query, keep_blank_values=True))
        if split.path == "/" and "query" not in params and not body:
            return self._answer(200, b"Ok.\n", {})
        row: Optional[dict[str, Any]] = None
        request: Optional[Request] = None
        code = 0
        try:
            user, password = self._credentials(params)
            self.server.users.check(user, password)
            content_type = self.headers.get("Content-Type", "")
            if content_type.startswith("multipart/form-data"):
                params, body = {**params, **_form(content_type, body)}, b""
            sql = params.get("query", "")
            text = body.decode("utf-8", "surrogateescape")
            sql = f"{sql}\n{text}" if sql and text else sql or text
            request = Request(sql, params, user, self.command)
            for header, param in (("X-ClickHouse-Database", "database"), ("X-ClickHouse-Format", "format")):
                if header in self.headers:
                    setattr(request, param, self.headers[header])
            row = self.server.queries.start(request)
            request.check_readonly()
            data = self.server.execute(request)
            status, extra = 200, {"X-ClickHouse-Format": request.format}
        except DbError as error:
            code = error.code
            status = _STATUS.get(error.code, 500)
            data = error.text(self.server.version).encode("utf-8", "surrogateescape") + b"\n"
            extra = {"X-ClickHouse-Exception-Code": str(error.code)}
        finally:
            if request is not None and row is not None:
                self.server.queries.finish(request, row, code)
        if request is not None:
            extra["X-ClickHouse-Query-Id"] = request.query_id
        self._answer(status, data, extra)

    def _answer(self, status: int, data: bytes, extra: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        self.send_header("X-ClickHouse-Server-Display-Name", self.server.display_name)
        self.send_header("X-ClickHouse-Timezone", "UTC")
        for name, value in extra.items():
            self.send_header(name, value)
        if self.headers.get("Connection", "").lower() == "close":
            self.send_header("Connection", "close")
            self.close_connection = True
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class HttpFront(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], version: str, display_name: str, users: Users, execute: Execute
    ) -> None:
        self.version, self.display_name, self.users, self.execute = version, display_name, users, execute
        self.queries = QueryLog()
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("connection ended", exc_info=True)
