"""The node's own Keeper session, beside the engine's: distributed DDL lives there."""
from __future__ import annotations

import contextlib
import logging
from typing import Callable, Iterator

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from engine import DbError

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

Lost = (ConnectionLoss, SessionExpiredError, KazooTimeoutError)


class Keeper:
    """Connects in the background and for ever; calls made while disconnected fail at once with code 999."""

    def __init__(self, hosts: str, session_timeout_ms: int) -> None:
        self.client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5, backoff=2),
            command_retry=KazooRetry(max_tries=0),
        )
        self._connected = self.client.start_async()

    def on_reconnect(self, call: Callable[[], None]) -> None:
        """Called in kazoo's thread whenever the connection is there again."""
        self.client.add_listener(lambda state: call() if state == KazooState.CONNECTED else None)

    def wait(self, seconds: float) -> bool:
        return bool(self._connected.wait(seconds)) and self.connected

    @property
    def connected(self) -> bool:
        return bool(self.client.connected)

    @contextlib.contextmanager
    def errors(self) -> Iterator[KazooClient]:
        """Turns a lost Keeper into the server's error."""
        if not self.connected:
            raise DbError(999, "All connection tries failed while connecting to ZooKeeper", "KEEPER_EXCEPTION")
        try:
            yield self.client
        except Lost as error:
            name = "Session expired" if isinstance(error, SessionExpiredError) else "Connection loss"
            raise DbError(999, f"Coordination error: {name}", "KEEPER_EXCEPTION") from None
        except NoNodeError:
            raise DbError(999, "Coordination error: No node", "KEEPER_EXCEPTION") from None
        except KazooException as error:
            raise DbError(999, f"Coordination error: {type(error).__name__}", "KEEPER_EXCEPTION") from None
