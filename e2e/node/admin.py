"""The admin port: what a test may do to a member, and the data behind the overlay views."""
from __future__ import annotations

import json
import logging
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from urllib.parse import urlsplit

from ddl_worker import DdlWorker, Faults
from engine import DbError, Engine
from http_front import HttpFront
from keeper import Keeper
from overlays import PROCESSES, QUEUE, Overlays
from queue_view import QueueView
from rows import Loader
from statement_faults import StatementFaults

log = logging.getLogger("admin")


class Admin:
    """The calls by method and path; each takes the JSON body and gives JSON back."""

    def __init__(
        self, engine: Engine, keeper: Keeper, front: HttpFront, faults: Faults, queue: QueueView,
        overlays: Overlays, loader: Loader, statements: StatementFaults,
        worker: DdlWorker, version: str,
    ) -> None:
        self.engine, self.keeper, self.front, self.faults = engine, keeper, front, faults
        self.queue, self.overlays, self.loader, self.version = queue, overlays, loader, version
        self.statements, self.running = statements, worker.running
        self.routes: dict[tuple[str, str], Callable[[Any], Any]] = {
            ("GET", "/health"): lambda _: {"ok": True, "version": version, "keeper": keeper.connected},
            ("POST", "/ddl/pause"): lambda _: faults.set_paused(True),
            ("POST", "/ddl/resume"): lambda _: faults.set_paused(False),
            ("POST", "/ddl/fail"): self._fail,
            ("POST", "/ddl/hold"): lambda b: faults.hold(b.get("match", "")),
            ("POST", "/ddl/release"): lambda b: faults.release(b.get("match")),
            ("POST", "/ddl/crash_after_execute"): lambda b: faults.crash(b.get("match", "")),
            ("POST", "/ddl/clear"): lambda _: faults.clear(),
            ("GET", "/ddl"): lambda _: faults.state(),
            ("GET", "/ddl/executed"): lambda _: worker.executed(),
            ("POST", "/statements/fail"): lambda b: statements.add(b, self._error_name(int(b["code"]))),
            ("POST", "/statements/clear"): lambda _: statements.clear(),
            ("GET", "/statements"): lambda _: statements.rules(),
            ("POST", "/replica/fault"): lambda b: overlays.set_fault(b["database"], b["table"], b["field"], b["value"]),
            ("POST", "/replica/clear"): lambda b: overlays.clear_faults(b.get("database"), b.get("table"), b.get("field")),
            ("POST", "/queue/overlay"): self._queue_overlay,
            ("POST", "/queue/clear"): lambda _: queue.overlay([]),
            ("GET", "/queue"): lambda _: queue.rows(),
            ("POST", "/system/overlay"): self._system_overlay,
            ("POST", "/system/clear"): lambda b: overlays.set_custom(b["table"], None),
            ("POST", "/keeper/stale"): lambda b: overlays.set_stale(b["database"], b["table"], bool(b["on"])),
            ("POST", "/users"): self._users,
            ("POST", "/load"): lambda b: loader.load(
                b["database"], b["table"], int(b.get("rows", 0)), int(b.get("start", 0)), b.get("select")),
            ("POST", "/query"): self._query,
            ("GET", "/queries"): lambda _: front.queries.rows(),
            ("DELETE", "/queries"): lambda _: front.queries.clear(),
        }

    def _error_name(self, code: int) -> str:
        return self.engine.value(f"SELECT errorCodeToName({code})") or "UNKNOWN_EXCEPTION"

    def _fail(self, body: Any) -> None:
        code = int(body.get("code", 57))
        message = body.get("message") or DbError(code, "Injected failure.", self._error_name(code)).text(self.version)
        self.faults.fail(body.get("match", ""), code, message, int(body.get("times", 1)))

    def _queue_overlay(self, body: Any) -> None:
        """One rule, or {"rules": […]} to replace them all."""
        if "rules" in body:
            self.queue.overlay(body["rules"])
        else:
            self.queue.add_overlay(body)

    def _system_overlay(self, body: Any) -> None:
        self.overlays.set_custom(body["table"], {k: v for k, v in body.items() if k != "table"})

    def _users(self, body: Any) -> None:
        for name, user in body.items():
            self.front.users.set(name, None if user is None else user["password"])

    def _query(self, body: Any) -> Any:
        """Straight to the engine: no rewriting, no log, no DDL queue."""
        data = self.engine.run(
            body["query"], body.get("format", "JSONEachRow"), body.get("settings"), body.get("database")
        )
        return {"result": data.decode("utf-8", "replace")}

    def processes(self) -> list[dict[str, Any]]:
        """Columns that are left out get their defaults."""
        entries = [
            {
                "is_initial_query": 0, "initial_query_id": e.initial_query_id, "query": e.query,
                "query_id": f"ddl-{e.initial_query_id}",
            }
            for e in list(self.running)
        ]
        return entries + [
            {
                "is_initial_query": 1, "user": r.user, "query_id": r.query_id, "initial_user": r.user,
                "initial_query_id": r.query_id, "query": r.sql, "current_database": r.database,
            }
            for r in self.front.queries.running()
        ]


class _Handler(BaseHTTPRequestHandler):
    server: "AdminServer"
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        admin = self.server.admin
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if path.startswith("/overlay/"):  # the engine reads these, with HEAD first
                name = path.rsplit("/", 1)[1]
                rows = {QUEUE: admin.queue.rows, PROCESSES: admin.processes}[name]() if self.command == "GET" else []
                data = "".join(json.dumps(row) + "\n" for row in rows).encode()
                return self._answer(200, data)
            call = admin.routes.get((self.command, path))
            if call is None:
                return self._answer(404, b'{"error": "no such call"}')
            result = call((json.loads(raw) if raw else None) or {})
            self._answer(200, json.dumps({"ok": True} if result is None else result).encode())
        except DbError as error:
            self._answer(500, json.dumps({"error": error.text(admin.version), "code": error.code}).encode())
        except (KeyError, ValueError, TypeError) as error:
            self._answer(400, json.dumps({"error": repr(error)}).encode())
        except Exception as error:
            log.exception("admin call %s", path)
            self._answer(500, json.dumps({"error": repr(error)}).encode())

    do_POST = do_DELETE = do_HEAD = do_GET

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if self.command != "HEAD":  # a length of 0 would make the engine skip the GET
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class AdminServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    admin: Admin

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
