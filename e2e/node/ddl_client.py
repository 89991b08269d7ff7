"""The initiator's side of distributed DDL: normalise, enqueue, wait, report."""
from __future__ import annotations

import json
import logging
import re
import time
import uuid
from typing import Optional

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

import ddl_entry
from config import Cluster, Spec
from ddl_entry import Entry
from engine import DbError, Engine
from keeper import Keeper
from sqltext import Token, explicit_uuid, ident, is_name, kind, literal, on_cluster, query_settings, splice, tokens

log = logging.getLogger("ddl")

_STRUCTURE = (
    "host String, port UInt16, status Nullable(Int64), error Nullable(String), "
    "num_hosts_remaining UInt64, num_hosts_active UInt64"
)
_MODES = ("throw", "none", "null_status_on_timeout", "never_throw", "throw_only_active", "none_only_active",
          "null_status_on_timeout_only_active")


def _qualify(sql: str, database: str) -> str:
    """Adds the session's database to table names without one."""
    found = tokens(sql)
    edits: list[tuple[int, int, str]] = []

    def table_at(i: int) -> int:
        """Qualifies the name at token i and returns the index after it."""
        if i < len(found) and is_name(found[i]):
            if i + 1 < len(found) and found[i + 1].text == ".":
                return i + 3
            edits.append((found[i].start, found[i].start, ident_if_needed(database) + "."))
        return i + 1

    statement = kind(sql).upper()
    i = 0
    if statement in ("EXCHANGE", "RENAME") and len(found) > 2 and found[1].is_word("TABLES", "TABLE"):
        i = 2
        while i < len(found):
            i = table_at(i)
            if i < len(found) and (found[i].is_word("AND", "TO") or found[i].text == ","):
                i += 1
            else:
                break
    elif statement in ("CREATE", "DROP", "ALTER", "TRUNCATE", "DETACH", "ATTACH"):
        at = _table_index(found)
        if at is not None:
            table_at(at)
    return splice(sql, edits)


def ident_if_needed(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else ident(name)


def _table_index(found: list[Token]) -> Optional[int]:
    """Where the table name starts in CREATE|DROP|ALTER|… [OR REPLACE] TABLE|VIEW [IF [NOT] EXISTS] name."""
    for i, token in enumerate(found[:8]):
        if token.is_word("DATABASE", "FUNCTION", "USER", "ROLE"):
            return None
        if token.is_word("TABLE", "VIEW", "DICTIONARY"):
            at = i + 1
            while at < len(found) and found[at].is_word("IF", "NOT", "EXISTS"):
                at += 1
            return at
    return None


def _with_uuid(sql: str) -> str:
    """One UUID for all members, as the initiator generates it."""
    found = tokens(sql)
    if kind(sql) != "Create" or explicit_uuid(sql) is not None:
        return sql
    at = _table_index(found)
    if at is None:
        return sql
    end = at + 2 if at + 1 < len(found) and found[at + 1].text == "." else at
    return splice(sql, [(found[end].end, found[end].end, f" UUID '{uuid.uuid4()}'")])


class DdlClient:
    def __init__(self, spec: Spec, engine: Engine, keeper: Keeper) -> None:
        self.spec, self.engine, self.keeper = spec, engine, keeper

    def execute(
        self, sql: str, settings: dict[str, str], database: str, query_id: str, fmt: str
    ) -> bytes:
        entry, settings = self.entry(sql, settings, database, query_id)
        timeout = _seconds(settings.get("distributed_ddl_task_timeout", "180"))
        mode = settings.get("distributed_ddl_output_mode", "throw")
        if mode not in _MODES:
            raise DbError(36, f"Unexpected value of DistributedDDLOutputMode: '{mode}'", "BAD_ARGUMENTS")
        with self.keeper.errors():
            path = self._enqueue(entry)
        if timeout == 0:
            return b""
        return self._wait(path, entry, timeout, mode, fmt)

    def entry(
        self, sql: str, settings: dict[str, str], database: str, query_id: str
    ) -> tuple[Entry, dict[str, str]]:
        """The entry as stored, and all settings in force."""
        clause = on_cluster(sql)
        assert clause is not None
        name = clause.cluster
        macros = {"cluster": self.spec.cluster, "shard": self.spec.me.shard, "replica": self.spec.me.replica}
        for key, value in macros.items():
            name = name.replace("{" + key + "}", value)
        cluster = self.spec.clusters.get(name)
        if cluster is None:
            raise DbError(701, f"Requested cluster '{name}' not found", "CLUSTER_DOESNT_EXIST")
        # The engine checks the settings and formats the statement.
        self.engine.run("SELECT 1", "Null", settings, database)
        text = self.engine.value(f"SELECT formatQuerySingleLine({literal(sql)})")
        text, own = self._split_settings(text)
        if own:
            settings = {**settings, **own}
            self.engine.run("SELECT 1", "Null", own)
        clause = on_cluster(text)
        assert clause is not None
        text = text[: clause.start] + f"ON CLUSTER {ident_if_needed(name)}" + text[clause.end :]
        text = _with_uuid(_qualify(text, database))
        hosts = self._hosts(cluster)
        me = self.spec.me
        return Entry(text, hosts, ddl_entry.host_id(me.host, me.tcp_port), settings, query_id), settings

    def _split_settings(self, text: str) -> tuple[str, dict[str, str]]:
        """The SETTINGS of the query go to the entry; those of a CREATE's storage stay in the statement."""
        clause = query_settings(text)
        if clause is None:
            return text, {}
        if kind(text) != "Create":
            return text[: clause.start].rstrip() + text[clause.end :], clause.values
        names = ", ".join(literal(name) for name in clause.values)
        found = self.engine.value(
            f"SELECT name FROM system.settings WHERE name IN ({names}) "
            "AND name NOT IN (SELECT name FROM system.merge_tree_settings)"
        ).split("\n")
        own = {k: v for k, v in clause.values.items() if k in found}
        if not own:
            return text, {}
        kept = ", ".join(f"{k} = {literal(v)}" for k, v in clause.values.items() if k not in own)
        return text[: clause.start].rstrip() + (f" SETTINGS {kept}" if kept else "") + text[clause.end :], own

    @staticmethod
    def _hosts(cluster: Cluster) -> list[str]:
        return [ddl_entry.host_id(e.host, e.port) for e in cluster.endpoints]

    def _enqueue(self, entry: Entry) -> str:
        client = self.keeper.client
        queue = self.spec.ddl_queue
        client.ensure_path(queue)
        path = client.create(f"{queue}/query-", entry.text().encode(), sequence=True)
        transaction = client.transaction()
        transaction.create(f"{path}/active")
        transaction.create(f"{path}/finished")
        transaction.commit()  # a worker that was quicker has made them
        return str(path)

    def _wait(self, path: str, entry: Entry, timeout: float, mode: str, fmt: str) -> bytes:
        deadline = None if timeout < 0 else time.monotonic() + timeout
        rows: list[dict[str, object]] = []
        done: set[str] = set()
        failure: Optional[DbError] = None
        client = self.keeper.client
        waiting = set(entry.hosts)
        active: set[str] = set()
        while waiting:
            try:
                finished = set(client.get_children(f"{path}/finished"))
                active = set(client.get_children(f"{path}/active"))
                for host in sorted((finished - done) & set(entry.hosts)):
                    done.add(host)
                    waiting.discard(host)
                    data = client.get(f"{path}/finished/{host}")[0].decode("utf-8", "replace")
                    code, _, message = data.partition("\n")
                    message = ddl_entry.unescape(message.rstrip("\n"))
                    name, port = ddl_entry.parse_host_id(host)
                    rows.append({
                        "host": name, "port": port, "status": int(code), "error": message,
                        "num_hosts_remaining": len(waiting), "num_hosts_active": len(active & waiting),
                    })
                    if int(code) and failure is None and not mode.startswith("never_throw"):
                        failure = _host_error(name, port, int(code), message)
            except (NoNodeError, NodeExistsError):
                if not self._exists(path):
                    raise DbError(
                        341,
                        f"Cannot provide query execution status. The query's node {path} has been deleted by the "
                        "cleaner since it was finished (or its lifetime is expired)",
                        "UNFINISHED",
                    ) from None
            except KazooException:
                raise DbError(999, "Coordination error: Connection loss", "KEEPER_EXCEPTION") from None
            if not waiting:
                break
            if deadline is not None and time.monotonic() >= deadline:
                executing = len(active & waiting)
                if mode in ("throw", "none", "throw_only_active", "none_only_active"):
                    raise DbError(
                        159,
                        f"Distributed DDL task {path} is not finished on {len(waiting)} of {len(entry.hosts)} hosts "
                        f"({executing} of them are currently executing the task, 0 are inactive). They are going to "
                        f"execute the query in background. Was waiting for {int(timeout)} seconds, which is longer than "
                        "distributed_ddl_task_timeout",
                        "TIMEOUT_EXCEEDED",
                    )
                for host in sorted(waiting):
                    name, port = ddl_entry.parse_host_id(host)
                    rows.append({"host": name, "port": port, "status": None, "error": None,
                                 "num_hosts_remaining": len(waiting), "num_hosts_active": executing})
                break
            time.sleep(0.02)  # the server polls too
        if failure is not None:
            raise failure
        return b"" if mode.startswith("none") else self._render(rows, fmt)

    def _exists(self, path: str) -> bool:
        return self.keeper.client.exists(path) is not None

    def _render(self, rows: list[dict[str, object]], fmt: str) -> bytes:
        lines = "\n".join(json.dumps(row) for row in rows)
        columns = "host, port, status, error, num_hosts_remaining, num_hosts_active"
        if all(row["status"] is not None for row in rows):
            columns = columns.replace("status, error", "assumeNotNull(status) AS status, assumeNotNull(error) AS error")
        sql = f"SELECT {columns} FROM format(JSONEachRow, {literal(_STRUCTURE)}, {literal(lines)})"
        return self.engine.run(sql, fmt)


def _seconds(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise DbError(72, f"Cannot parse number: {value}", "CANNOT_PARSE_NUMBER") from None


def _host_error(host: str, port: int, code: int, message: str) -> DbError:
    names = re.findall(r"\(([A-Z][A-Z0-9_]+)\)", message)
    return DbError(code, f"There was an error on [{host}:{port}]: {message}", names[-1] if names else "UNKNOWN_EXCEPTION")
