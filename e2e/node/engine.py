"""The embedded ClickHouse engine: one per process, sessions for statements."""
from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from typing import Iterator, Optional

import chdb

from sqltext import ident, is_distributed, literal

_CODE = re.compile(r"^\s*Code: (\d+)\. (\w+::\w+): ", re.DOTALL)
_NAME = re.compile(r"\s*\(([A-Z][A-Z0-9_]+)\)\s*\Z")
_VERSION = re.compile(r"\s*\(version [^()]*(?:\([^()]*\))?\)\s*\Z")


# Where the embedded engine's defaults are not a server's.
_SERVER_DEFAULTS = "SET implicit_select = 0, allow_introspection_functions = 0"


class DbError(Exception):
    """An error as the server would report it."""

    def __init__(self, code: int, message: str, name: str, origin: str = "DB::Exception") -> None:
        super().__init__(message)
        self.code, self.message, self.name, self.origin = code, message, name, origin

    def text(self, version: str) -> str:
        return f"Code: {self.code}. {self.origin}: {self.message} ({self.name}) (version {version} (official build))"


def parse_error(text: str) -> DbError:
    """Engine text to code, message, name; the engine sometimes wraps an error in itself."""
    code, name, origin = 1001, "STD_EXCEPTION", "DB::Exception"
    found = True
    while found:
        found = False
        text = _VERSION.sub("", text).rstrip()
        stripped = text[:-1] if text.endswith(")." ) else text
        stripped = _VERSION.sub("", stripped)
        match = _NAME.search(stripped)
        head = _CODE.match(text)
        if head and match:
            code, origin, name = int(head.group(1)), head.group(2), match.group(1)
            text = stripped[head.end() : match.start()]
            found = True
    return DbError(code, text.strip(), name, origin)


class Engine:
    """Runs statements; on the older engine one at a time, since its session is one per process."""

    def __init__(self, data_dir: str, config_path: str, lock_path: str) -> None:
        self._source = f"{data_dir}?config-file={config_path}"
        self._main = chdb.connect(self._source)
        self._lock = threading.Lock()
        self._lock_path = lock_path
        self.version = self._main.query("SELECT version()", "TSV").bytes().decode().strip()
        major = int(self.version.split(".")[0])
        self.parallel = major >= 26

    @contextlib.contextmanager
    def _cluster_lock(self, sql: str) -> Iterator[None]:
        """Serial engines that query each other at the same time would wait for each other for ever."""
        if self.parallel or not is_distributed(sql):
            yield
            return
        with open(self._lock_path, "w", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def run(
        self,
        sql: str,
        fmt: str = "TabSeparated",
        settings: Optional[dict[str, str]] = None,
        database: Optional[str] = None,
    ) -> bytes:
        with self._cluster_lock(sql):
            if self.parallel:
                session = chdb.connect(self._source)  # cheap, and a session of its own
                try:
                    self._query(session, _SERVER_DEFAULTS, "Null")
                    self._prepare(session, settings, database)
                    return self._query(session, sql, fmt)
                finally:
                    session.close()
            with self._lock:
                try:
                    self._prepare(self._main, settings, database)
                    return self._query(self._main, sql, fmt)
                finally:
                    self._reset(settings, database)

    def _prepare(self, session: object, settings: Optional[dict[str, str]], database: Optional[str]) -> None:
        if database and database != "default":
            self._query(session, f"USE {ident(database)}", "Null")
        if settings:
            pairs = ", ".join(f"{name} = {literal(value)}" for name, value in settings.items())
            self._query(session, f"SET {pairs}", "Null")

    def _reset(self, settings: Optional[dict[str, str]], database: Optional[str]) -> None:
        if database and database != "default":
            self._query(self._main, "USE default", "Null")
        for name in settings or {}:
            with contextlib.suppress(DbError):  # an unknown setting was never set
                self._query(self._main, f"SET {name} = DEFAULT", "Null")

    @staticmethod
    def _query(session: object, sql: str, fmt: str) -> bytes:
        try:
            result = session.query(sql, fmt)  # type: ignore[attr-defined]
        except Exception as error:  # the engine raises its own and plain RuntimeErrors
            raise parse_error(str(error)) from None
        return result.bytes() if hasattr(result, "bytes") else bytes(str(result), "utf-8")

    def value(self, sql: str) -> str:
        return self.run(sql, "TabSeparatedRaw").decode("utf-8").rstrip("\n")

    @staticmethod
    def stop() -> None:
        os._exit(0)  # an orderly close hangs while Replicated tables are attached
