"""One member of the embedded test cluster: python main.py --spec SPEC.json --index I"""
from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading

import config
from admin import Admin, AdminServer
from ddl_client import DdlClient
from ddl_worker import DdlWorker, Faults
from engine import Engine
from http_front import HttpFront, Request, Users
from keeper import Keeper
from native import NativeServer
from overlays import QUEUE, Overlays
from queue_view import QueueView
from reattach import Reattach
from rows import Loader
from sqltext import ident, is_statement, literal, mentions, on_cluster
from statement_faults import StatementFaults


class Member:
    def __init__(self, spec: config.Spec) -> None:
        me = spec.me
        self.spec = spec
        self.keeper = Keeper(spec.zookeeper, spec.session_timeout_ms)
        self.engine = Engine(me.dir + "/data", config.write_engine_config(spec), spec.path + ".lock")
        self.faults = Faults()
        self.statements = StatementFaults()
        self.queue = QueueView(spec, self.keeper)
        self.overlays = Overlays(spec, self.engine)
        self.ddl = DdlClient(spec, self.engine, self.keeper)
        self.worker = DdlWorker(spec, self.engine, self.keeper, self.faults)
        version = self.engine.version
        self.front = HttpFront((me.host, me.http_port), version, me.host_name, Users(spec.users), self.execute)
        self.native = NativeServer((me.host, me.tcp_port), version, me.host_name, self.remote)
        self.admin = AdminServer(("127.0.0.1", me.admin_port))
        self.admin.admin = Admin(
            self.engine, self.keeper, self.front, self.faults, self.queue, self.overlays,
            Loader(self.engine, self.keeper), self.statements, self.worker, version,
        )

    def prepare(self, sql: str, functions: dict[str, str]) -> str:
        """The text as this member's engine is to run it."""
        if mentions(sql, QUEUE):
            with self.keeper.errors():  # the engine would only see a failing url()
                pass
        return self.overlays.rewrite(sql, functions)

    def execute(self, request: Request) -> bytes:
        """A statement from HTTP."""
        self.statements.check(request.sql, "http", request.user)
        answer = self._execute(request)
        self.statements.check(request.sql, "http", request.user, after=True)
        return answer

    def _execute(self, request: Request) -> bytes:
        settings = request.settings
        if on_cluster(request.sql) is not None:
            return self.ddl.execute(request.sql, settings, request.database, request.query_id, request.format)
        if request.params:
            settings = {**settings, **request.params}
        sql = request.sql
        if is_statement(sql, "SHOW", "GRANTS"):
            sql = f"SHOW GRANTS FOR {ident(request.user)}"
        # the engine runs everything as `default`
        user = literal(request.user)
        sql = self.prepare(sql, {"currentUser": user, "user": user})
        return self.engine.run(sql, request.format, settings, request.database)

    def remote(self, sql: str, settings: dict[str, str], database: str, _query_id: str) -> bytes:
        """A statement from another member."""
        self.statements.check(sql, "native")
        return self.engine.run(self.prepare(sql, {}), "Native", settings, database)

    def serve(self) -> None:
        for server in (self.admin, self.native, self.front):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
        self.overlays.create()
        self.worker.start()
        Reattach(self.engine, self.keeper).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--verbose", action="store_true", help="log statements to stderr")
    args = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if args.verbose else logging.INFO,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )
    signal.signal(signal.SIGTERM, lambda *_: Engine.stop())
    signal.signal(signal.SIGINT, lambda *_: Engine.stop())
    member = Member(config.load(args.spec, args.index))
    member.serve()
    print("READY", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
