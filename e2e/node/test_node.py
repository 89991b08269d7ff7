"""Two members on free ports against a real ZooKeeper.

    python e2e/node/test_node.py            # the engine of this interpreter
    NODE_PYTHON=…/python python e2e/node/test_node.py   # members run by another interpreter
"""
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
    zookeeper: Optional[subprocess.Popen[bytes]] = None
    nodes: list[Node]

    @classmethod
    def setUpClass(cls) -> None:
        cls.work = tempfile.mkdtemp(prefix="node-test-")
        cls.nodes = []
        port = free_port()
        config = Path(cls.work) / "zoo.cfg"
        config.write_text(
            f"tickTime=500\ndataDir={cls.work}/zk\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
        )
        try:
            with open(Path(cls.work) / "zookeeper.log", "ab") as log:
                cls.zookeeper = subprocess.Popen([ZOOKEEPER, str(config)], stdout=log, stderr=log)
            until("ZooKeeper", lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None)
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
    def tearDownClass(cls) -> None:
        for node in cls.nodes:
            if node.process is not None:
                node.stop(signal.SIGKILL)
            node.log.close()
        if cls.zookeeper is not None:
            cls.zookeeper.kill()
            cls.zookeeper.wait()
        if "KEEP_WORK" not in os.environ:
            shutil.rmtree(cls.work, ignore_errors=True)

    def setUp(self) -> None:
        self.a, self.b = self.nodes
        self.name = "t" + uuid.uuid4().hex[:8]
        for node in self.nodes:
            node.admin("/ddl/clear")

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


class Members(ClusterTest):
    def test_members_differ(self) -> None:
        for node in self.nodes:
            rows = node.all("SELECT serverUUID() AS u, hostName() AS h, tcpPort() AS p, version() AS v")
            self.assertEqual(
                sorted((r["u"], r["h"], r["p"]) for r in rows),
                sorted((m["server_uuid"], f"main-{m['replica']}", m["tcp_port"]) for m in self.spec["members"]),
            )

    def test_clusters_know_themselves(self) -> None:
        rows = self.a.all("SELECT serverUUID() AS u, host_name, port, is_local, internal_replication "
                          "FROM system.clusters WHERE cluster = 'main'")
        self.assertEqual(len(rows), 4)
        for member in self.spec["members"]:
            own = [(r["host_name"], r["port"]) for r in rows if r["u"] == member["server_uuid"] and r["is_local"]]
            self.assertEqual(own, [(member["host"], member["tcp_port"])])
        self.assertTrue(all(r["internal_replication"] for r in rows))

    def test_catalog_reads_on_every_member(self) -> None:
        self.create(self.name)
        tables = self.a.rows("SELECT name FROM system.tables WHERE database = 'system'")
        for table in ("tables", "columns", "replicas", "clusters", "databases", "mutations", "data_skipping_indices",
                      "projections", "macros", "build_options", "settings", "server_settings", "merge_tree_settings",
                      "grants", "row_policies", "dictionaries", "replication_queue", "distributed_ddl_queue",
                      "processes", "parts"):
            if table == "projections" and {"name": table} not in tables:
                continue  # newer than 24.8
            with self.subTest(table=table):
                self.a.all(f"SELECT serverUUID() AS u, * FROM system.{table} LIMIT 50")
                self.a.rows(f"SELECT * FROM clusterAllReplicas('main', system.{table})", **READS)

    def test_errors_and_users(self) -> None:
        for sql, settings, status, code in (
            ("SELECT * FROM shop.nosuch", {}, 404, 60), ("SELECT 1", {"nosuch": "1"}, 404, 115),
            ("SELECT FROM WHERE", {}, 400, 62), ("SELECT * FROM nosuch.t", {}, 404, 81),
        ):
            with self.subTest(sql=sql):
                answer = self.a.query(sql, **settings)
                self.assertEqual((answer.status, answer.code), (status, code), answer.text)
                self.assertTrue(answer.text.startswith(f"Code: {code}. DB::Exception: "), answer.text)
        self.assertEqual(self.a.query("DROP TABLE shop.x", method="GET").code, 164)
        self.a.admin("/users", {"publisher": {"password": "a@^b/"}})
        try:
            answer = self.a.query("SELECT 1")
            self.assertEqual((answer.status, answer.code), (403, 516))
            self.a.password = "a@^b/"
            self.assertEqual(self.a.query("SELECT 1", method="GET").rows(), [{"1": 1}])
        finally:
            self.a.admin("/users", {"publisher": {"password": "pw"}})
            self.a.password = "pw"

    def test_injected_denial(self) -> None:
        self.a.admin("/statements/fail", {"match": "system.tables", "code": 497, "where": "native"})
        self.b.admin("/statements/fail", {"match": "SELECT 42", "code": 497, "message": "Not enough privileges", "times": 1})
        try:
            self.assertEqual(self.b.query("SELECT 42").code, 497)
            self.assertEqual(self.b.query("SELECT 42").code, 0)
            read = "SELECT * FROM clusterAllReplicas('main', view(SELECT name FROM system.tables))"
            self.assertEqual(self.a.query(read, **READS).status, 200)
        finally:
            self.a.admin("/statements/clear")
        self.assertIn("publisher", self.a.query("SHOW GRANTS", fmt="TSV").text)
        self.assertEqual(self.a.rows("SELECT currentUser() AS u"), [{"u": "publisher"}])

    def test_settings_last_for_one_statement(self) -> None:
        self.assertEqual(self.a.rows("SELECT getSetting('log_comment') AS c", log_comment="x"), [{"c": "x"}])
        self.assertEqual(self.a.rows("SELECT getSetting('log_comment') AS c"), [{"c": ""}])
        self.a.rows("SELECT count() FROM system.merge_tree_settings WHERE readonly >= 0", readonly="1")

    def test_query_log(self) -> None:
        self.a.admin("/queries", method="DELETE")
        self.a.rows("SELECT 7 AS x", query_id="my-id")
        self.assertEqual(
            [(r["query_id"], r["kind"], r["user"], r["code"]) for r in self.a.admin("/queries", method="GET")],
            [("my-id", "Select", "publisher", 0)],
        )

    def test_dead_and_stopped_peer(self) -> None:
        read = "SELECT * FROM clusterAllReplicas('main', view(SELECT serverUUID() AS u))"
        self.assertEqual(len(self.a.rows(read, **READS)), 2)
        assert self.b.process is not None
        self.b.process.send_signal(signal.SIGSTOP)
        try:
            started = time.monotonic()
            self.assertIn(self.a.query(read, **READS).code, (209, 279))
            self.assertLess(time.monotonic() - started, 20)
        finally:
            self.b.process.send_signal(signal.SIGCONT)
        until("the stopped peer answers", lambda: len(self.a.rows(read, **READS)) == 2)
        self.b.stop(signal.SIGKILL)
        try:
            self.assertEqual(self.a.query(read, **READS).code, 279)
        finally:
            self.b.start()
            self.b.ready()
        self.assertEqual(len(self.a.rows(read, **READS)), 2)


class Facade(ClusterTest):
    def test_compare_and_swap(self) -> None:
        table = f"publication.{self.name}"
        create = (f"CREATE TABLE IF NOT EXISTS {table} ON CLUSTER main (target_key String, phase String, "
                  f"sha FixedString(4)) ENGINE = KeeperMap('/{self.name}') PRIMARY KEY target_key")
        self.a.query(create, log_comment="boot").rows()
        self.b.query(create).rows()
        strict = {"keeper_map_strict_mode": "1", "insert_keeper_max_retries": "0"}
        insert = f"INSERT INTO {table} (target_key, phase, sha) VALUES ('k', 'PREPARED', 'abcd')"
        self.assertEqual(self.a.query(insert, **strict).status, 200)
        again = self.b.query(insert, **strict)
        self.assertEqual(again.code, 999)
        self.assertIn("Transaction failed", again.text)

        def versions() -> list[tuple[str, int]]:
            rows = self.b.all(f"SELECT serverUUID() AS u, phase, _version AS v FROM {table} WHERE target_key = 'k'")
            self.assertEqual(len({r["u"] for r in rows}), 2)
            return sorted({(r["phase"], r["v"]) for r in rows})

        update = f"ALTER TABLE {table} UPDATE phase = '{{}}' WHERE target_key = 'k' AND _version = {{}} AND phase = '{{}}'"
        answer = self.b.query(update.format("NEXT", 0, "PREPARED"), **strict)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(versions(), [("NEXT", 1)])
        for stale in (update.format("LOST", 0, "PREPARED"), update.format("LOST", 1, "PREPARED")):
            self.assertEqual(self.a.query(stale, **strict).status, 200)  # acknowledged, matches nothing
        self.assertEqual(versions(), [("NEXT", 1)])
        self.b.admin("/keeper/stale", {"database": "publication", "table": self.name, "on": True})
        self.assertEqual(self.a.query(update.format("LAST", 1, "NEXT"), **strict).status, 200)
        self.assertEqual(versions(), [("LAST", 2), ("NEXT", 1)])
        self.b.admin("/keeper/stale", {"database": "publication", "table": self.name, "on": False})
        self.assertEqual(versions(), [("LAST", 2)])
        rows = self.a.rows(f"SELECT *, serverUUID() FROM {table}")
        self.assertEqual(list(rows[0]), ["target_key", "phase", "sha", "serverUUID()"])
        self.b.query(f"DROP TABLE {table} ON CLUSTER main").rows()


class DistributedDdl(ClusterTest):
    def test_create_gives_one_uuid_and_two_replicas(self) -> None:
        self.create(self.name)
        (first,), (second,) = self.uuids(self.name)
        self.assertEqual(first, second)
        rows = self.a.all(f"SELECT serverUUID() AS u, * FROM system.replicas WHERE table = '{self.name}'")
        self.assertEqual(
            {(r["zookeeper_path"], r["total_replicas"], r["active_replicas"], r["is_readonly"]) for r in rows},
            {(f"/clickhouse/tables/{first}/01", 2, 2, 0)},
        )
        self.assertEqual({r["replica_name"] for r in rows}, {"r1", "r2"})

    def test_exchange_with_rows(self) -> None:
        target, candidate = self.pair()
        before = self.uuids(target, candidate)
        for node in self.nodes:
            self.assertEqual(node.admin("/load", {"database": "shop", "table": candidate, "rows": 500})["count"], 500)
        self.assertEqual(
            {r["c"] for r in self.a.all(f"SELECT serverUUID() AS u, (SELECT count() FROM shop.`{candidate}`) AS c")}, {500})
        answer = self.a.query(
            f"EXCHANGE TABLES {target} AND {candidate} ON CLUSTER '{{cluster}}' /* a secret */ "
            "SETTINGS distributed_ddl_task_timeout = 30 -- more",
            log_comment="tok-1", database="shop", query_id="q-1", wait_end_of_query="1",
        ).rows()
        self.assertEqual({(r["host"], r["port"], r["status"]) for r in answer},
                         {(m["host"], m["tcp_port"], 0) for m in self.spec["members"]})
        rows = self.queue("tok-1", self.b)
        self.assertEqual(set(rows), {m["host"] for m in self.spec["members"]})
        for row in rows.values():
            self.assertEqual(row["query"], f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main")
            self.assertEqual(row["settings"], {"log_comment": "tok-1", "distributed_ddl_task_timeout": "30"})
            self.assertEqual((row["cluster"], row["entry_version"], row["status"], row["exception_code"],
                              row["exception_text"]), ("main", 5, "Finished", 0, ""))
            self.assertEqual((row["initiator_host"], row["initiator_port"]), ("127.0.0.2", self.a.member["tcp_port"]))
        self.assertEqual(self.uuids(target, candidate), [[c, t] for t, c in before])
        self.assertEqual(self.b.rows(f"SELECT count() AS c FROM shop.{target}"), [{"c": 500}])
        self.a.query(f"RENAME TABLE shop.{candidate} TO shop.{target}__retired_x ON CLUSTER main").rows()
        self.a.query(f"DROP TABLE IF EXISTS shop.{target}__retired_x ON CLUSTER main").rows()
        self.assertEqual(self.uuids(candidate, f"{target}__retired_x"), [["", ""], ["", ""]])

    def test_awkward_names(self) -> None:
        for name in ("order", "a`b", "a\\b", "таблица", "x.y"):
            with self.subTest(name=name):
                quoted = "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
                self.a.query("CREATE DATABASE IF NOT EXISTS `my-db` ON CLUSTER main").rows()
                for suffix in ("", "__pub_1"):
                    table = quoted[:-1] + suffix + "`"
                    self.a.query(f"CREATE TABLE `my-db`.{table} ON CLUSTER main (id UInt64) "
                                 "ENGINE = ReplicatedMergeTree ORDER BY id").rows()
                self.a.query(f"EXCHANGE TABLES {quoted} AND {quoted[:-1]}__pub_1` ON CLUSTER main",
                             database="my-db", log_comment=f"odd-{name.encode().hex()}").rows()
                rows = self.queue(f"odd-{name.encode().hex()}")
                self.assertEqual({(r["cluster"], r["exception_code"]) for r in rows.values()}, {("main", 0)})

    def test_pause_and_resume(self) -> None:
        target, candidate = self.pair()
        before = self.uuids(target, candidate)
        self.b.admin("/ddl/pause")
        answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main",
                              log_comment="tok-pause", distributed_ddl_task_timeout="1")
        self.assertEqual(answer.code, 159, answer.text)
        rows = self.queue("tok-pause")
        self.assertEqual((rows["127.0.0.2"]["status"], rows["127.0.0.3"]["status"]), ("Finished", "Inactive"))
        self.assertIsNone(rows["127.0.0.3"]["exception_code"])
        self.assertEqual(self.uuids(target, candidate), [before[0][::-1], before[1]])
        self.b.admin("/ddl/resume")
        self.finished("tok-pause")
        self.assertEqual(self.uuids(target, candidate), [b[::-1] for b in before])

    def test_timeout_zero_returns_at_once(self) -> None:
        target, candidate = self.pair()
        answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main",
                              log_comment="tok-zero", distributed_ddl_task_timeout="0")
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.finished("tok-zero")

    def test_hold_and_release(self) -> None:
        target, candidate = self.pair()
        self.b.admin("/ddl/hold", {"match": candidate})
        answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main",
                              log_comment="tok-hold", distributed_ddl_task_timeout="1")
        self.assertEqual(answer.code, 159)
        self.assertEqual(self.queue("tok-hold")["127.0.0.3"]["status"], "Active")
        self.b.admin("/ddl/release")
        self.finished("tok-hold")

    def test_failure_on_one_host(self) -> None:
        target, candidate = self.pair()
        before = self.uuids(target, candidate)
        self.b.admin("/ddl/fail", {"match": f"EXCHANGE TABLES shop.{target}", "code": 48})
        answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main", log_comment="tok-fail")
        self.assertEqual(answer.code, 48)
        self.assertIn(f"There was an error on [127.0.0.3:{self.b.member['tcp_port']}]: Code: 48.", answer.text)
        rows = self.queue("tok-fail")
        self.assertEqual((rows["127.0.0.2"]["exception_code"], rows["127.0.0.3"]["exception_code"]), (0, 48))
        self.assertEqual(self.uuids(target, candidate), [before[0][::-1], before[1]])
        missing = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.nosuch ON CLUSTER main", log_comment="tok-60")
        self.assertEqual((missing.status, missing.code), (404, 60))
        self.assertEqual({r["exception_code"] for r in self.queue("tok-60").values()}, {60})

    def test_unknown_cluster_and_setting(self) -> None:
        self.assertEqual(self.a.query("DROP TABLE shop.x ON CLUSTER nosuch").code, 701)
        self.assertEqual(self.a.query("DROP TABLE shop.x ON CLUSTER main", nosuch="1").code, 115)

    def test_crash_between_execution_and_receipt(self) -> None:
        target, candidate = self.pair()
        before = self.uuids(target, candidate)
        self.b.admin("/ddl/crash_after_execute", {"match": candidate})
        answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main",
                              log_comment="tok-crash", distributed_ddl_task_timeout="1")
        self.assertEqual(answer.code, 159)
        self.assertEqual(self.b.stop(), 137)
        self.b.start()
        self.b.ready()
        rows = self.finished("tok-crash")
        self.assertEqual({r["exception_code"] for r in rows.values()}, {0})
        # run twice on the second member: swapped back
        self.assertEqual(self.uuids(target, candidate), [before[0][::-1], before[1]])

    def test_kill_and_restart_keeps_state_and_catches_up(self) -> None:
        target, candidate = self.pair()
        self.b.admin("/load", {"database": "shop", "table": candidate, "rows": 10})
        before = self.uuids(target, candidate)
        self.b.stop(signal.SIGKILL)
        answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main",
                              log_comment="tok-kill", distributed_ddl_task_timeout="1")
        self.assertEqual(answer.code, 159)
        self.b.start()
        self.b.ready()
        self.finished("tok-kill")
        self.assertEqual(self.uuids(target, candidate), [b[::-1] for b in before])
        self.assertEqual(self.b.rows(f"SELECT count() AS c FROM shop.{target}"), [{"c": 10}])

    def test_overlays(self) -> None:
        self.create(self.name)
        fault = {"database": "shop", "table": self.name, "field": "queue_size", "value": 3}
        self.b.admin("/replica/fault", fault)
        read = f"SELECT serverUUID() AS u, queue_size AS q FROM system.replicas WHERE table = '{self.name}'"
        shown = {r["u"]: r["q"] for r in self.a.all(read)}
        self.assertEqual([shown[m["server_uuid"]] for m in self.spec["members"]], [0, 3])
        self.b.admin("/replica/clear")
        self.assertEqual({r["q"] for r in self.a.all(read)}, {0})
        self.a.admin("/system/overlay", {"table": "clusters", "replace": {"is_local": "0"}})
        self.assertEqual({r["is_local"] for r in self.a.rows("SELECT is_local FROM system.clusters")}, {0})
        self.a.admin("/system/clear", {"table": "clusters"})
        mutation = {"database": "shop", "table": self.name, "mutation_id": "m1", "is_done": 0}
        self.a.admin("/system/overlay", {"table": "mutations", "rows": [mutation]})
        self.assertEqual(self.a.rows("SELECT mutation_id AS m FROM system.mutations"), [{"m": "m1"}])
        self.a.admin("/system/clear", {"table": "mutations"})
        self.a.query(f"RENAME TABLE shop.{self.name} TO shop.{self.name}_2 ON CLUSTER main", log_comment="tok-ovl").rows()
        self.a.admin("/queue/overlay", {"token": "tok-ovl", "match": {"host": "127.0.0.3"},
                                        "set": {"status": "Removing", "exception_code": None}})
        self.assertEqual(self.queue("tok-ovl")["127.0.0.3"]["status"], "Removing")
        self.assertEqual(self.queue("tok-ovl", self.b)["127.0.0.3"]["status"], "Finished")
        self.a.admin("/queue/clear")
        self.assertEqual(self.queue("tok-ovl")["127.0.0.3"]["status"], "Finished")


class KeeperOutage(ClusterTest):
    def test_stop_and_continue(self) -> None:
        target, candidate = self.pair()
        assert self.zookeeper is not None
        self.zookeeper.send_signal(signal.SIGSTOP)
        try:
            until("the sessions are lost", lambda: not self.a.admin("/health", method="GET")["keeper"])
            self.assertEqual(self.a.query("SELECT count() FROM system.distributed_ddl_queue").code, 999)
            answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main")
            self.assertEqual(answer.code, 999)
        finally:
            self.zookeeper.send_signal(signal.SIGCONT)
        for node in self.nodes:
            until("the session is back", lambda n=node: n.admin("/health", method="GET")["keeper"])
        before = self.uuids(target, candidate)
        self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main", log_comment="tok-back").rows()
        self.assertEqual(self.uuids(target, candidate), [b[::-1] for b in before])


if __name__ == "__main__":
    unittest.main()
