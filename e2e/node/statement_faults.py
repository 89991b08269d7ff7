"""Errors that a test wants a member to give to statements, wherever they come from."""
from __future__ import annotations

import threading
from typing import Any, Optional

from engine import DbError


class StatementFaults:
    """Rules {"match": substring, "code", "message", "times", "where": "http" | "native" | "any", "user", "after"}.

    With "after" the statement runs first: an error that says nothing about the effect.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[dict[str, Any]] = []

    def add(self, rule: dict[str, Any], name: str) -> None:
        with self._lock:
            self._rules.append({"match": "", "times": 0, "where": "any", "user": None, "after": False, **rule, "name": name})

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def rules(self) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(rule) for rule in self._rules]

    def check(self, sql: str, where: str, user: Optional[str] = None, after: bool = False) -> None:
        with self._lock:
            for rule in self._rules:
                if rule["match"] not in sql or rule["where"] not in ("any", where):
                    continue
                if rule["user"] not in (None, user) or rule["after"] != after:
                    continue
                if rule["times"]:  # 0 is for ever
                    rule["times"] -= 1
                    if rule["times"] == 0:
                        self._rules.remove(rule)
                raise DbError(int(rule["code"]), rule.get("message", "Injected failure."), rule["name"])
