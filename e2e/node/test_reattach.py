"""Replicas come back after every outage, however two of them meet."""
from __future__ import annotations

import json
import threading
import unittest
from typing import Any, Callable

from reattach import Reattach


class Reconnections(unittest.TestCase):
    def test_a_reconnection_during_a_look_asks_for_another(self) -> None:
        reconnected: list[Callable[[], None]] = []
        looks: list[str] = []
        restarted = threading.Event()

        class Keeper:
            def on_reconnect(self, call: Callable[[], None]) -> None:
                reconnected.append(call)

            def wait(self, _seconds: float) -> bool:
                return True

        class Engine:
            def run(self, sql: str, *_: Any) -> bytes:
                if sql.startswith("SYSTEM RESTART REPLICA"):
                    restarted.set()
                    return b""
                looks.append(sql)
                if len(looks) == 1:
                    # Nothing has expired yet; by the time the answer is there, something has.
                    reconnected[0]()
                    return b""
                expired = {"database": "shop", "table": "orders"}
                return b"" if restarted.is_set() else json.dumps(expired).encode()

        Reattach(Engine(), Keeper()).start()  # type: ignore[arg-type]
        self.assertTrue(restarted.wait(30), f"{len(looks)} looks")


if __name__ == "__main__":
    unittest.main()
