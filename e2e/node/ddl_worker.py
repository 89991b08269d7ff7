"""The member's side of distributed DDL: runs each entry once, in order, and says so in Keeper.

Like the server, it writes `finished` only after the statement ran: a process that dies in between runs it again.
"""
from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from typing import Optional

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

import ddl_entry
from config import Spec
from engine import DbError, Engine
from keeper import Keeper
from sqltext import engine_name, explicit_uuid, splice, without_on_cluster

log = logging.getLogger("ddl")


class Faults:
    """What the admin port armed for this member's worker."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self.paused = False
        self._fail: list[dict[str, object]] = []
        self._hold: list[str] = []
        self._crash: list[str] = []

    def set_paused(self, on: bool) -> None:
        with self._lock:
            self.paused = on
            self._lock.notify_all()

    def fail(self, match: str, code: int, message: str, times: int) -> None:
        with self._lock:
            self._fail.append({"match": match, "code": code, "message": message, "times": times})

    def hold(self, match: str) -> None:
        with self._lock:
            self._hold.append(match)

    def release(self, match: Optional[str]) -> None:
        with self._lock:
            self._hold = [m for m in self._hold if match is not None and m != match]
            self._lock.notify_all()

    def crash(self, match: str) -> None:
        with self._lock:
            self._crash.append(match)

    def clear(self) -> None:
        with self._lock:
            self.paused = False
            self._fail, self._hold, self._crash = [], [], []
            self._lock.notify_all()

    def wait_unpaused(self) -> None:
        with self._lock:
            while self.paused:
                self._lock.wait()

    def wait_released(self, query: str) -> None:
        with self._lock:
            while any(m in query for m in self._hold):
                self._lock.wait()

    def take_failure(self, query: str) -> Optional[DbError]:
        with self._lock:
            for rule in self._fail:
                if str(rule["match"]) in query:
                    rule["times"] = int(rule["times"]) - 1  # type: ignore[call-overload]
                    if rule["times"] == 0:
                        self._fail.remove(rule)
                    return DbError(int(rule["code"]), str(rule["message"]), "")  # type: ignore[call-overload]
        return None

    def take_crash(self, query: str) -> bool:
        with self._lock:
            return any(m in query for m in self._crash)

    def state(self) -> dict[str, object]:
        with self._lock:
            return {"paused": self.paused, "fail": list(self._fail), "hold": list(self._hold), "crash": list(self._crash)}


class DdlWorker:
    def __init__(self, spec: Spec, engine: Engine, keeper: Keeper, faults: Faults) -> None:
        self.spec, self.engine, self.keeper, self.faults = spec, engine, keeper, faults
        self.running: list[ddl_entry.Entry] = []
        self._mine: dict[str, bool] = {}
        self._settled: set[str] = set()
        self._executed = os.path.join(spec.me.dir, "executed.jsonl")
        self._thread = threading.Thread(target=self._loop, name="ddl", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _loop(self) -> None:
        client = self.keeper.client
        while True:
            try:
                if not self.keeper.wait(1.0):
                    continue
                client.ensure_path(self.spec.ddl_queue)
                changed = threading.Event()
                names = sorted(
                    n for n in client.get_children(self.spec.ddl_queue, watch=lambda _e: changed.set())
                    if n.startswith("query-")
                )
                self._settled &= set(names)
                for name in names:
                    if name not in self._settled:
                        self.faults.wait_unpaused()
                        self._process(name)
                        self._settled.add(name)
                while not changed.wait(0.5):
                    if not self.keeper.connected:
                        break
            except KazooException as error:
                log.info("keeper: %s", type(error).__name__)
                time.sleep(0.1)
            except Exception:
                log.exception("ddl worker")
                time.sleep(0.1)

    def _process(self, name: str) -> None:
        client = self.keeper.client
        path = f"{self.spec.ddl_queue}/{name}"
        try:
            data, _ = client.get(path)
            entry = ddl_entry.parse(data.decode("utf-8", "surrogateescape"))
        except (NoNodeError, ValueError):
            return
        host = next((h for h in entry.hosts if self._is_me(h)), None)  # like the server: the first one only
        if host is None or client.exists(f"{path}/finished/{host}"):
            return
        for child in ("active", "finished"):
            try:
                client.create(f"{path}/{child}")
            except NodeExistsError:
                pass
        active = f"{path}/active/{host}"
        try:
            client.create(active, self.spec.me.server_uuid.encode(), ephemeral=True)
        except NodeExistsError:  # of our own earlier session
            client.delete(active)
            client.create(active, self.spec.me.server_uuid.encode(), ephemeral=True)
        self.faults.wait_released(entry.query)
        status = self._run(name, entry)
        if self.faults.take_crash(entry.query):
            os._exit(137)
        self._finish(path, host, status)

    def _is_me(self, host: str) -> bool:
        """Own port, and a name for own address."""
        if host not in self._mine:
            me = self.spec.me
            try:
                name, port = ddl_entry.parse_host_id(host)
                addresses = {a[4][0] for a in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)}
            except (OSError, ValueError):
                return False
            own = {a[4][0] for a in socket.getaddrinfo(me.host, me.tcp_port, type=socket.SOCK_STREAM)}
            self._mine[host] = port == me.tcp_port and bool(addresses & (own | {"127.0.0.1", "::1"}))
        return self._mine[host]

    def executed(self) -> list[dict[str, object]]:
        """What the engine was given, in order, over all lives of this directory (a failure that a fault gives is not)."""
        if not os.path.exists(self._executed):
            return []
        with open(self._executed, encoding="utf-8") as rows:
            return [json.loads(row) for row in rows]

    def _run(self, name: str, entry: ddl_entry.Entry) -> str:
        try:
            failure = self.faults.take_failure(entry.query)
            if failure is not None:
                raise failure
            with open(self._executed, "a", encoding="utf-8") as rows:
                rows.write(json.dumps({"entry": name, "query": entry.query}) + "\n")
            self.running.append(entry)
            try:
                self.engine.run(self._local_text(entry.query), "Null", entry.settings)
            finally:
                self.running.clear()
            return "0\n"
        except DbError as error:
            body = error.message if not error.name else error.text(self.engine.version)
            return f"{error.code}\n{ddl_entry.escape(body)}"

    def _local_text(self, query: str) -> str:
        """Without ON CLUSTER. KeeperMap registers table UUID + server UUID, and the embedded engine's server UUID
        is zero everywhere: its tables get a UUID of their own on each member."""
        text = without_on_cluster(query)
        literal_uuid = explicit_uuid(text)
        if literal_uuid is not None and engine_name(text) == "KeeperMap":
            own = uuid.uuid5(uuid.UUID(literal_uuid.name), self.spec.me.server_uuid)
            text = splice(text, [(literal_uuid.start, literal_uuid.end, f"'{own}'")])
        return text

    def _finish(self, path: str, host: str, status: str) -> None:
        """One multi, retried through reconnects: the statement must not run again in this process."""
        client = self.keeper.client
        while True:
            try:
                transaction = client.transaction()
                if client.exists(f"{path}/active/{host}"):
                    transaction.delete(f"{path}/active/{host}")
                transaction.create(f"{path}/finished/{host}", status.encode("utf-8", "surrogateescape"))
                results = transaction.commit()
                if not any(isinstance(r, Exception) for r in results):
                    return
                if client.exists(f"{path}/finished/{host}") or not client.exists(path):
                    return
            except KazooException:
                self.keeper.wait(1.0)
                time.sleep(0.05)
