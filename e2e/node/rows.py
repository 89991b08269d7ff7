"""Rows in a Replicated table of an engine that cannot replicate: a part is built elsewhere and put in place."""
from __future__ import annotations

import json
import os
import re
import shutil
import threading
import uuid
from typing import Any, Optional

from kazoo.exceptions import NodeExistsError

from engine import DbError, Engine
from keeper import Keeper
from sqltext import OVERLAY_DB, ident, literal, splice, tokens

_PART = re.compile(r"^(.*)_(\d+)_(\d+)_(\d+)$")


def _plain_table(create: str, name: str) -> str:
    """The CREATE statement of a MergeTree table with the columns and keys of a Replicated one."""
    found = tokens(create)
    start = next(i for i, t in enumerate(found) if t.text == "(")
    edits = [(0, found[start].start, f"CREATE TABLE {name} ")]
    engine = next(i for i, t in enumerate(found) if t.is_word("ENGINE"))
    word = found[engine + 2]
    edits.append((word.start, word.end, word.text.replace("Replicated", "", 1)))
    if found[engine + 3].text == "(":
        # the first two arguments are path and replica, unless they are left out
        end = engine + 3
        if found[end + 1].kind == "string":
            end += 4 if found[end + 4].text == "," else 3
            edits.append((found[engine + 3].end, found[end].end, ""))
    return splice(create, edits)


def _expression(name: str, type_name: str, start: int) -> str:
    """A value that depends on the row number alone, so that every member builds the same rows."""
    number = f"(number + {start})"
    base = type_name
    while (match := re.fullmatch(r"(?:Nullable|LowCardinality)\((.*)\)", base)) is not None:
        base = match.group(1)
    if re.match(r"U?Int|Float|Decimal|Bool", base):
        return f"CAST({number if base != 'Bool' else number + ' % 2'} AS {type_name}) AS {ident(name)}"
    if base == "String":
        return f"CAST(concat('row-', toString({number})) AS {type_name}) AS {ident(name)}"
    if re.match(r"Date", base):
        return f"CAST(toDateTime('2024-01-01 00:00:00') + {number} AS {type_name}) AS {ident(name)}"
    return f"defaultValueOfTypeName({literal(type_name)}) AS {ident(name)}"


class Loader:
    def __init__(self, engine: Engine, keeper: Keeper) -> None:
        self.engine, self.keeper = engine, keeper
        self._lock = threading.Lock()

    def load(
        self, database: str, table: str, rows: int = 0, start: int = 0, select: Optional[str] = None
    ) -> dict[str, Any]:
        with self._lock:
            return self._load(database, table, rows, start, select)

    def _one(self, sql: str) -> dict[str, Any]:
        lines = self.engine.run(sql, "JSONEachRow").decode().splitlines()
        if not lines:
            raise DbError(60, "Table does not exist", "UNKNOWN_TABLE")
        return dict(json.loads(lines[0]))

    def _load(self, database: str, table: str, rows: int, start: int, select: Optional[str]) -> dict[str, Any]:
        here = f"database = {literal(database)} AND {{}} = {literal(table)}"
        info = self._one(
            "SELECT create_table_query, data_paths, engine FROM system.tables WHERE " + here.format("name")
        )
        name = f"{ident(database)}.{ident(table)}"
        replicated = info["engine"].startswith("Replicated")
        if select is None:
            columns = self.engine.run(
                "SELECT name, type FROM system.columns WHERE " + here.format("table")
                + " AND default_kind IN ('', 'DEFAULT') ORDER BY position", "JSONEachRow",
            ).decode().splitlines()
            wanted = [json.loads(c) for c in columns]
            select = "SELECT " + ", ".join(_expression(c["name"], c["type"], start) for c in wanted)
            select += f" FROM numbers({rows})"
        if not replicated:
            self.engine.run(f"INSERT INTO {name} {select}")
            return {"count": int(self.engine.value(f"SELECT count() FROM {name}"))}
        keeper_path = self._one(
            "SELECT replica_path FROM system.replicas WHERE " + here.format("table")
        )["replica_path"]
        plain = f"{OVERLAY_DB}.load_{uuid.uuid4().hex}"
        self.engine.run(_plain_table(info["create_table_query"], plain))
        try:
            self.engine.run(f"INSERT INTO {plain} {select}")
            parts = [json.loads(line) for line in self.engine.run(
                f"SELECT name, path FROM system.parts WHERE concat(database, '.', table) = '{plain}' AND active",
                "JSONEachRow",
            ).decode().splitlines()]
            # SYNC: what a catalog reader still holds cannot be attached again.
            self.engine.run(f"DETACH TABLE {name} SYNC")
            try:
                for part in parts:
                    self._place(part, info["data_paths"][0], keeper_path)
            finally:
                self.engine.run(f"ATTACH TABLE {name}")
        finally:
            self.engine.run(f"DROP TABLE {plain}", settings={"max_table_size_to_drop": "0"})
        return {"count": int(self.engine.value(f"SELECT count() FROM {name}")), "parts": len(parts)}

    def _place(self, part: dict[str, str], data_path: str, keeper_path: str) -> None:
        match = _PART.match(part["name"])
        assert match is not None
        partition, block = match.group(1), 0
        taken = os.listdir(data_path)
        while f"{partition}_{block}_{block}_0" in taken:
            block += 1
        name = f"{partition}_{block}_{block}_0"
        shutil.copytree(part["path"], os.path.join(data_path, name))
        with self.keeper.errors() as client:
            client.ensure_path(f"{keeper_path}/parts")
            try:
                client.create(f"{keeper_path}/parts/{name}", b"")
            except NodeExistsError:
                pass
