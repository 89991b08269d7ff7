"""Views in an own database for what the embedded engine cannot know; front and shim rewrite the names to them."""
from __future__ import annotations

import json
import threading
from typing import Any

from config import MACRO_HOST, MACRO_UUID, Spec, engine_host
from engine import Engine
from queue_view import STRUCTURE
from sqltext import OVERLAY_DB, Name, ident, is_name, is_write, literal, rewrite, tokens

FUNCTIONS = {
    "serverUUID": f"toUUID(getMacro('{MACRO_UUID}'))",
    "hostName": f"getMacro('{MACRO_HOST}')",
    "hostname": f"getMacro('{MACRO_HOST}')",
}
QUEUE, REPLICAS, CLUSTERS, MACROS, PROCESSES = (
    "distributed_ddl_queue", "replicas", "clusters", "macros", "processes",
)
# A table of the embedded engine is readonly without replication; these are what a healthy server shows.
_HEALTHY = {
    "is_readonly": "is_session_expired",
    "active_replicas": "total_replicas",
    "replica_is_active": "mapApply((k, v) -> (k, toUInt8(1)), replica_is_active)",
}
_STALE = "stale_"


def _stale_name(copy: str) -> Name:
    database, _, table = copy[len(_STALE) :].partition("_")
    return bytes.fromhex(database).decode(), bytes.fromhex(table).decode()


class Overlays:
    def __init__(self, spec: Spec, engine: Engine) -> None:
        self.spec, self.engine = spec, engine
        self._lock = threading.Lock()
        self._faults: dict[tuple[str, str, str], Any] = {}
        self._custom: dict[str, dict[str, Any]] = {}
        self.names: dict[Name, Name] = {}
        self.stale: dict[Name, Name] = {}

    def rewrite(self, sql: str, functions: dict[str, str]) -> str:
        tables = self.names if is_write(sql) else {**self.names, **self.stale}
        for token in tokens(sql):
            # a stale member sent its own name of the table
            if is_name(token) and token.name.startswith(_STALE) and (name := _stale_name(token.name)) not in self.stale:
                tables = {**tables, (OVERLAY_DB, token.name): name}
        return rewrite(sql, tables, {**FUNCTIONS, **functions})

    def create(self) -> None:
        self.engine.run(f"CREATE DATABASE IF NOT EXISTS {OVERLAY_DB}")
        known = set(self.engine.value(
            f"SELECT name FROM system.tables WHERE database = '{OVERLAY_DB}'").split("\n")) - {""}
        for name in sorted(known):  # views of an earlier life of this directory
            self.engine.run(f"DROP TABLE IF EXISTS {OVERLAY_DB}.{ident(name)}")
        with self._lock:
            for name in (QUEUE, REPLICAS, CLUSTERS, MACROS, PROCESSES):
                self._build(name)

    def _url(self, path: str, structure: str) -> str:
        address = f"http://127.0.0.1:{self.spec.me.admin_port}/overlay/{path}"
        return f"url({literal(address)}, JSONEachRow, {literal(structure)})"

    def _structure(self, table: str) -> str:
        rows = self.engine.run(f"DESCRIBE TABLE system.{ident(table)}", "JSONEachRow").decode().splitlines()
        columns = [json.loads(row) for row in rows]
        return ", ".join(
            f"{ident(c['name'])} {c['type']}" for c in columns if c["default_type"] not in ("ALIAS", "MATERIALIZED")
        )

    def _build(self, table: str) -> None:
        """(Re)creates the view; its text carries the faults of the moment."""
        custom = self._custom.get(table, {})
        replace: dict[str, str] = {}
        source = f"system.{ident(table)}"
        where = custom.get("where", "1")
        if table == QUEUE:
            source = self._url(QUEUE, STRUCTURE)
        elif table == PROCESSES:
            source = self._url(PROCESSES, self._structure(PROCESSES))
        elif table == MACROS:
            where = f"({where}) AND macro NOT IN ('{MACRO_UUID}', '{MACRO_HOST}')"
        elif table == REPLICAS:
            replace = self._replica_columns()
        elif table == CLUSTERS:
            replace = self._cluster_columns()
        replace.update(custom.get("replace", {}))
        text = f"SELECT * FROM {source} WHERE {where}"
        if replace:
            columns = ", ".join(
                f"CAST({sql} AS {self._type(table, name)}) AS {ident(name)}" for name, sql in replace.items()
            )
            text = f"SELECT * REPLACE({columns}) FROM {source} WHERE {where}"
        if custom.get("rows"):
            lines = "\n".join(json.dumps(row) for row in custom["rows"])
            structure = self._structure(table)
            text += f" UNION ALL SELECT * FROM format(JSONEachRow, {literal(structure)}, {literal(lines)})"
        self.engine.run(f"CREATE OR REPLACE VIEW {OVERLAY_DB}.{ident(table)} AS {text}", settings={
            "http_max_tries": "1",
        } if table == QUEUE else None)
        self.names = {**self.names, ("system", table): (OVERLAY_DB, table)}

    def _type(self, table: str, column: str) -> str:
        return self.engine.value(
            f"SELECT type FROM system.columns WHERE database = 'system' AND table = {literal(table)} "
            f"AND name = {literal(column)}"
        )

    def _replica_columns(self) -> dict[str, str]:
        columns = dict(_HEALTHY)
        for (database, table, field), value in self._faults.items():
            base = columns.get(field, ident(field))
            shown = literal(value) if isinstance(value, str) else json.dumps(value)
            here = f"database = {literal(database)} AND {ident('table')} = {literal(table)}"
            columns[field] = f"if({here}, CAST({shown} AS {self._type(REPLICAS, field)}), {base})"
        return columns

    def _cluster_columns(self) -> dict[str, str]:
        """Undoes the 127.0.0.1 that the engine needs to know itself."""
        mine = []
        for cluster in self.spec.clusters.values():
            for shard_num, shard in enumerate(cluster.shards(), 1):
                for replica_num, endpoint in enumerate(shard, 1):
                    if engine_host(self.spec, endpoint) != endpoint.host:
                        mine.append(f"({literal(cluster.name)}, {shard_num}, {replica_num})")
        if not mine:
            return {}
        here = f"(cluster, shard_num, replica_num) IN ({', '.join(mine)})"
        host = literal(self.spec.me.host)
        return {name: f"if({here}, {host}, {name})" for name in ("host_name", "host_address")}

    def set_fault(self, database: str, table: str, field: str, value: Any) -> None:
        with self._lock:
            self._faults[(database, table, field)] = value
            self._build(REPLICAS)

    def clear_faults(self, database: str | None = None, table: str | None = None, field: str | None = None) -> None:
        with self._lock:
            self._faults = {
                k: v for k, v in self._faults.items()
                if not all(want in (None, have) for want, have in zip((database, table, field), k))
            }
            self._build(REPLICAS)

    def set_stale(self, database: str, table: str, on: bool) -> None:
        """Reads of a KeeperMap table keep showing what it holds now; writes go on to the table itself."""
        name, copy = (database, table), f"{_STALE}{database.encode().hex()}_{table.encode().hex()}"
        with self._lock:
            self.engine.run(f"DROP TABLE IF EXISTS {OVERLAY_DB}.{copy}")
            self.stale = {k: v for k, v in self.stale.items() if k != name}
            if not on:
                return
            rows = self.engine.run(f"DESCRIBE TABLE {ident(database)}.{ident(table)}", "JSONEachRow").decode()
            columns = [json.loads(row) for row in rows.splitlines()]
            listed = ", ".join(f"{ident(c['name'])} {c['type']}" for c in columns)
            # `*` leaves a materialized column out, as it does the virtual one
            self.engine.run(f"CREATE TABLE {OVERLAY_DB}.{copy} ({listed}, _version Int32 MATERIALIZED 0) ENGINE = Memory")
            wanted = ", ".join(ident(c["name"]) for c in columns) + ", _version"
            self.engine.run(
                f"INSERT INTO {OVERLAY_DB}.{copy} ({wanted}) SELECT {wanted} FROM {ident(database)}.{ident(table)}",
                settings={"insert_allow_materialized_columns": "1"},
            )
            self.stale = {**self.stale, name: (OVERLAY_DB, copy)}

    def set_custom(self, table: str, custom: dict[str, Any] | None) -> None:
        """Any system table: {"where": SQL, "replace": {column: SQL}, "rows": […]}; None takes it away."""
        with self._lock:
            if custom is None:
                self._custom.pop(table, None)
            else:
                self._custom[table] = custom
            self._build(table)
