"""Rows of system.distributed_ddl_queue, read from Keeper as the server reads them."""
from __future__ import annotations

import threading
from typing import Any

from kazoo.exceptions import NoNodeError

import ddl_entry
from config import Spec
from keeper import Keeper
from sqltext import on_cluster

STRUCTURE = (
    "entry String, entry_version Nullable(UInt8), initiator_host Nullable(String), initiator_port Nullable(UInt16), "
    "cluster String, query String, settings Map(String, String), query_create_time DateTime, host Nullable(String), "
    "port Nullable(UInt16), status Nullable(Enum8('Inactive' = 0, 'Active' = 1, 'Finished' = 2, 'Removing' = 3, "
    "'Unknown' = 4)), exception_code Nullable(UInt16), exception_text Nullable(String), "
    "query_finish_time Nullable(DateTime), query_duration_ms Nullable(UInt64)"
)


class QueueView:
    def __init__(self, spec: Spec, keeper: Keeper) -> None:
        self.spec, self.keeper = spec, keeper
        self._lock = threading.Lock()
        self._done: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._overlay: list[dict[str, Any]] = []

    def overlay(self, rules: list[dict[str, Any]]) -> None:
        with self._lock:
            self._overlay = [dict(rule) for rule in rules]

    def add_overlay(self, rule: dict[str, Any]) -> None:
        with self._lock:
            self._overlay.append(dict(rule))

    def rules(self) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(rule) for rule in self._overlay]

    def rows(self) -> list[dict[str, Any]]:
        """Newest entries last. Entries all of whose hosts finished no longer change and are kept."""
        with self.keeper.errors() as client:
            try:
                names = sorted(n for n in client.get_children(self.spec.ddl_queue) if n.startswith("query-"))
            except NoNodeError:
                names = []
            reads = {n: client.get_async(f"{self.spec.ddl_queue}/{n}") for n in names}
            rows: list[dict[str, Any]] = []
            for name in names:
                try:
                    data, stat = reads[name].get()
                except NoNodeError:
                    continue
                key = (name, stat.czxid)
                if key not in self._done:
                    found, final = self._entry(client, name, data, stat)
                    if not final:
                        rows += found
                        continue
                    self._done[key] = found
                rows += self._done[key]
        return self._apply([dict(row) for row in rows])

    def _entry(self, client: Any, name: str, data: bytes, stat: Any) -> tuple[list[dict[str, Any]], bool]:
        base: dict[str, Any] = {
            "entry": name, "entry_version": None, "initiator_host": None, "initiator_port": None, "cluster": "",
            "query": "", "settings": {}, "query_create_time": stat.ctime // 1000, "host": None, "port": None,
            "status": "Unknown", "exception_code": None, "exception_text": None, "query_finish_time": None,
            "query_duration_ms": None,
        }
        try:
            entry = ddl_entry.parse(data.decode("utf-8", "replace"))
        except ValueError:
            return [base], False
        base["entry_version"], base["query"], base["settings"] = entry.version, entry.query, entry.settings
        if entry.initiator:
            base["initiator_host"], base["initiator_port"] = ddl_entry.parse_host_id(entry.initiator)
        clause = on_cluster(entry.query)
        base["cluster"] = clause.cluster if clause else ""
        path = f"{self.spec.ddl_queue}/{name}"
        try:
            finished = client.get_children(f"{path}/finished")
            active = client.get_children(f"{path}/active")
        except NoNodeError:
            gone = client.exists(path) is None
            return [{**base, "status": "Removing" if gone else "Unknown"}], False
        seen: list[str] = []
        rows = []
        for host in [*finished, *active, *entry.hosts]:
            if host in seen:
                continue
            seen.append(host)
            row = dict(base)
            row["host"], row["port"] = ddl_entry.parse_host_id(host)
            row["status"] = "Active" if host in active else "Inactive"
            if host in finished:
                try:
                    raw, node = client.get(f"{path}/finished/{host}")
                except NoNodeError:
                    rows.append({**row, "status": "Removing"})
                    continue
                code, _, text = raw.decode("utf-8", "replace").partition("\n")
                row.update(
                    status="Finished",
                    exception_code=int(code),
                    exception_text=ddl_entry.unescape(text.rstrip("\n")),
                    query_finish_time=node.mtime // 1000,
                    query_duration_ms=max(0, node.mtime - stat.ctime),
                )
            rows.append(row)
        return rows, set(finished) >= set(entry.hosts)

    def _apply(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Test overrides: {"match": {column: value or prefix of entry/query…}, "set": {…} | "drop": true | "add": {…}}."""
        for rule in self.rules():
            match = rule.get("match", {})
            if "token" in rule:
                hit = [r for r in rows if rule["token"] in str(r["settings"].get("log_comment", ""))]
            else:
                hit = rows
            hit = [r for r in hit if all(r.get(k) == v for k, v in match.items())]
            if rule.get("drop"):
                rows = [r for r in rows if r not in hit]
            for row in hit:
                if "duplicate" in rule:
                    rows.append({**row, **rule["duplicate"]})
                row.update(rule.get("set", {}))
            if "add" in rule:
                empty = {"entry": "query-9999999999", "cluster": "", "query": "", "settings": {}, "query_create_time": 0}
                rows.append({**empty, **rule["add"]})
        return rows
