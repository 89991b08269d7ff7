"""Two members and a ZooKeeper for the tests of the node."""
from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.parse import urlencode

HERE = Path(__file__).resolve().parent
ZOOKEEPER = os.environ.get("ZOOKEEPER_SERVER") or str(HERE.parents[1] / ".tools/bin/zookeeper-server")
NODE_PYTHON = os.environ.get("NODE_PYTHON", sys.executable)
READS = {
    "skip_unavailable_shards": "0", "use_hedged_requests": "0", "connections_with_failover_max_tries": "1",
    "handshake_timeout_ms": "1000", "connect_timeout_with_failover_ms": "500", "max_execution_time": "20",
    "receive_timeout": "5", "send_timeout": "5",
}
DEADLINE = 60.0


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def until(what: str, check: Callable[[], Any], seconds: float = DEADLINE) -> Any:
    """Polls until the check gives something true; errors count as not yet."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if value := check():
                return value
        except (OSError, AssertionError, http.client.HTTPException) as error:
            last = error
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what} ({last})")


class Answer:
    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode("utf-8", "replace")
        self.code = int(headers.get("X-ClickHouse-Exception-Code") or 0)

    def rows(self) -> list[dict[str, Any]]:
        assert self.status == 200, self.text
        return [json.loads(line) for line in self.text.splitlines()]


class Node:
    def __init__(self, spec_path: str, spec: dict[str, Any], index: int) -> None:
        self.spec_path, self.index, self.member = spec_path, index, spec["members"][index]
        self.password = "pw"
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.log = open(Path(spec_path).parent / f"member{index}.log", "ab")

    def start(self) -> None:
        self.process = subprocess.Popen(
            [NODE_PYTHON, str(HERE / "main.py"), "--spec", self.spec_path, "--index", str(self.index)],
            stdout=subprocess.PIPE, stderr=self.log,
        )

    def ready(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == b"READY\n", f"member {self.index} said {line!r}, see its log"

    def stop(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None and self.process.stdout is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(10)
        self.process.stdout.close()
        return code

    def query(self, sql: str, fmt: str = "JSONEachRow", method: str = "POST", **settings: str) -> Answer:
        token = base64.b64encode(f"publisher:{self.password}".encode()).decode()
        connection = http.client.HTTPConnection(self.member["host"], self.member["http_port"], timeout=DEADLINE)
        params: dict[str, str] = {"default_format": fmt, **settings}
        body: Optional[bytes] = sql.encode()
        if method == "GET":
            params["query"], body = sql, None
        try:
            connection.request(method, "/?" + urlencode(params), body, {"Authorization": f"Basic {token}"})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def rows(self, sql: str, **settings: str) -> list[dict[str, Any]]:
        return self.query(sql, **settings).rows()

    def all(self, inner: str) -> list[dict[str, Any]]:
        return self.rows(f"SELECT * FROM clusterAllReplicas('main', view({inner}))", **READS)

    def has_keeper(self) -> bool:
        return bool(self.admin("/health", method="GET")["keeper"])

    def admin(self, path: str, body: Any = None, method: str = "POST") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.member["admin_port"], timeout=DEADLINE)
        try:
            connection.request(method, path, json.dumps(body or {}))
            response = connection.getresponse()
            raw = response.read()
            assert response.status == 200, raw
            return json.loads(raw)
        finally:
            connection.close()


class ClusterTest(unittest.TestCase):
    work: str
    spec: dict[str, Any]
    zookeeper: Optional[subprocess.Popen[bytes]] = None
    nodes: list[Node]

    @classmethod
    def setUpClass(cls) -> None:
        cls.work = tempfile.mkdtemp(prefix="node-test-")
        cls.nodes = []
        port = free_port()
        try:
            cls.zookeeper_on(port)
            members = [
                {
                    "host": f"127.0.0.{index + 2}", "tcp_port": free_port(), "http_port": free_port(),
                    "admin_port": free_port(), "replica": f"r{index + 1}", "shard": "01",
                    "dir": f"{cls.work}/m{index}", "server_uuid": str(uuid.uuid4()),
                }
                for index in range(2)
            ]
            cls.spec = {
                "cluster": "main", "zookeeper": f"127.0.0.1:{port}", "members": members,
                "users": {"publisher": {"password": "pw"}}, "session_timeout_ms": 5000, "operation_timeout_ms": 2000,
                "extra_clusters": {"other": [{"shard": "01", "host": "127.0.0.9", "port": 9}]},
            }
            path = Path(cls.work) / "spec.json"
            path.write_text(json.dumps(cls.spec))
            cls.nodes = [Node(str(path), cls.spec, index) for index in range(2)]
            for node in cls.nodes:
                node.start()
            for node in cls.nodes:
                node.ready()
            for database in ("shop", "publication"):
                cls.nodes[0].query(f"CREATE DATABASE {database} ON CLUSTER main").rows()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def zookeeper_on(cls, port: int) -> None:
        (Path(cls.work) / "zoo.cfg").write_text(
            f"tickTime=500\ndataDir={cls.work}/zk\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
        )
        cls.start_zookeeper()

    @classmethod
    def start_zookeeper(cls) -> None:
        config = Path(cls.work) / "zoo.cfg"
        port = int(config.read_text().split("clientPort=")[1].split()[0])
        with open(Path(cls.work) / "zookeeper.log", "ab") as log:
            cls.zookeeper = subprocess.Popen([ZOOKEEPER, str(config)], stdout=log, stderr=log)
        until("ZooKeeper", lambda: socket.create_connection(("127.0.0.1", port), 1)).close()

    @classmethod
    def stop_zookeeper(cls) -> None:
        if cls.zookeeper is not None:
            cls.zookeeper.kill()
            cls.zookeeper.wait()
            cls.zookeeper = None

    @classmethod
    def tearDownClass(cls) -> None:
        for node in cls.nodes:
            if node.process is not None:
                node.stop(signal.SIGKILL)
            node.log.close()
        cls.stop_zookeeper()
        if "KEEP_WORK" not in os.environ:
            shutil.rmtree(cls.work, ignore_errors=True)

    def setUp(self) -> None:
        self.a, self.b = self.nodes
        self.name = "t" + uuid.uuid4().hex[:8]
        for node in self.nodes:
            node.admin("/ddl/clear")
            until("Keeper", node.has_keeper)

    def create(self, table: str) -> None:
        self.a.query(
            f"CREATE TABLE shop.{table} ON CLUSTER main (id UInt64, name String) "
            "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id"
        ).rows()

    def pair(self) -> tuple[str, str]:
        """A target and its candidate."""
        names = self.name, f"{self.name}__pub_1"
        for name in names:
            self.create(name)
        return names

    def uuids(self, *tables: str) -> list[list[str]]:
        """Per member the UUIDs of the tables, in the order asked for; read from each member itself."""
        out = []
        for node in self.nodes:
            found = {r["name"]: r["u"] for r in node.rows(
                "SELECT name, toString(uuid) AS u FROM system.tables WHERE database = 'shop'")}
            out.append([found.get(table, "") for table in tables])
        return out

    def queue(self, token: str, node: Optional[Node] = None) -> dict[str, dict[str, Any]]:
        rows = (node or self.a).rows(
            f"SELECT * FROM system.distributed_ddl_queue WHERE settings['log_comment'] = '{token}'")
        return {row["host"]: row for row in rows}

    def finished(self, token: str) -> dict[str, dict[str, Any]]:
        def check() -> Any:
            rows = self.queue(token)
            return rows if rows and all(r["status"] == "Finished" for r in rows.values()) else None

        return dict(until(f"{token} finished", check))
