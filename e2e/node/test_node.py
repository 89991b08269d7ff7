"""The member against a real ZooKeeper; run with the Python that has the engine:

    python -m unittest discover -s e2e/node

NODE_PYTHON names another interpreter for the members, ZOOKEEPER_SERVER another launcher, KEEP_WORK keeps the logs.
"""
from __future__ import annotations

import signal
import time
import unittest

from test_support import READS, ClusterTest, until


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

    def test_reads_of_the_operator(self) -> None:
        """Each as it is, of one member and of all, also in the binary format of its client."""
        server = "toString(serverUUID()) AS server"
        self.create(self.name)
        reads = [
            f"SELECT {server}, toUInt64(count()) AS rows FROM shop.`{self.name}`",
            f"SELECT {server}, hostName() AS host_name, toUInt16(tcpPort()) AS tcp_port, version() AS version",
            f"SELECT {server}, name, toString(uuid) AS uuid, engine, engine_full, create_table_query, sorting_key, "
            "primary_key, partition_key, sampling_key FROM system.tables "
            f"WHERE database = 'shop' AND name IN ('{self.name}')",
            f"SELECT {server}, is_readonly, toUInt64(queue_size) AS queue_size, toUInt64(active_replicas) AS a, "
            "toUInt8(zookeeper_exception != '') AS keeper_exception FROM system.replicas "
            f"WHERE database = 'shop' AND table = '{self.name}'",
            f"SELECT {server}, '' AS entry, CAST(NULL AS Nullable(UInt16)) AS port, CAST(NULL AS Nullable(String)) AS "
            f"status UNION ALL SELECT {server}, entry, port, CAST(status AS Nullable(String)) AS status "
            "FROM system.distributed_ddl_queue WHERE cluster = 'main' AND settings['log_comment'] IN ('x')",
        ]
        uuids = {m["server_uuid"] for m in self.spec["members"]}
        for read in reads:
            with self.subTest(read=read):
                self.assertEqual([r["server"] for r in self.b.rows(read)], [self.b.member["server_uuid"]])
                self.assertEqual({r["server"] for r in self.b.all(read)}, uuids)
                binary = self.a.query(read, fmt="RowBinaryWithNamesAndTypes")
                self.assertEqual(binary.status, 200)
                self.assertIn(b"\x06server", binary.body[:8])

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
        self.a.admin("/statements/fail", {"match": "CREATE DATABASE", "code": 999, "times": 1, "after": True})
        self.assertEqual(self.a.query(f"CREATE DATABASE {self.name}").code, 999)
        self.assertEqual(len(self.a.rows(f"SELECT 1 FROM system.databases WHERE name = '{self.name}'")), 1)
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
        ran = [[r["entry"] for r in n.admin("/ddl/executed", method="GET") if candidate in r["query"] and r["query"][0] == "E"]
               for n in self.nodes]
        self.assertEqual((len(ran[0]), ran[1]), (1, ran[0] * 2))
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


if __name__ == "__main__":
    unittest.main()
