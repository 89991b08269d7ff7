"""Tables that were loaded while Keeper was away: a server attaches them later by itself, the engine has no such thread."""
from __future__ import annotations

import json
import logging
import threading
import time

from engine import DbError, Engine
from keeper import Keeper
from sqltext import ident

log = logging.getLogger("reattach")


class Reattach:
    def __init__(self, engine: Engine, keeper: Keeper) -> None:
        self.engine, self.keeper = engine, keeper
        self._outage = threading.Event()
        self._outage.set()  # who knows what the start met
        keeper.on_reconnect(self._outage.set)

    def start(self) -> None:
        threading.Thread(target=self._loop, name="reattach", daemon=True).start()

    def _loop(self) -> None:
        while self._outage.wait():
            # Before the look: a reconnection during it asks for another one.
            self._outage.clear()
            if not self._is_whole():
                self._outage.set()
            time.sleep(0.5)

    def _is_whole(self) -> bool:
        if not self.keeper.wait(1.0):
            return False
        try:
            return self._restart_expired() == 0
        except DbError as error:
            log.info("not yet: %s", error)
            return False

    def _restart_expired(self) -> int:
        rows = self.engine.run(
            "SELECT database, table FROM system.replicas WHERE is_session_expired", "JSONEachRow"
        ).decode().splitlines()
        for row in map(json.loads, rows):
            self.engine.run(f"SYSTEM RESTART REPLICA {ident(row['database'])}.{ident(row['table'])}")
        return len(rows)
