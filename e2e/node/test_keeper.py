"""KeeperMap through the members, and an outage of Keeper."""
from __future__ import annotations

import signal
import unittest

from test_support import ClusterTest, until


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


class KeeperOutage(ClusterTest):
    def test_stop_and_continue(self) -> None:
        target, candidate = self.pair()
        assert self.zookeeper is not None
        self.zookeeper.send_signal(signal.SIGSTOP)
        try:
            until("the sessions are lost", lambda: not self.a.has_keeper())
            self.assertEqual(self.a.query("SELECT count() FROM system.distributed_ddl_queue").code, 999)
            answer = self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main")
            self.assertEqual(answer.code, 999)
        finally:
            self.zookeeper.send_signal(signal.SIGCONT)
        for node in self.nodes:
            until("the session is back", node.has_keeper)
        read = f"SELECT serverUUID() AS u, total_replicas AS n FROM system.replicas WHERE table = '{target}'"
        until("all replicas are seen again", lambda: [r["n"] for r in self.a.all(read)] == [2, 2])
        before = self.uuids(target, candidate)
        self.a.query(f"EXCHANGE TABLES shop.{target} AND shop.{candidate} ON CLUSTER main", log_comment="tok-back").rows()
        self.assertEqual(self.uuids(target, candidate), [b[::-1] for b in before])


    def test_start_while_keeper_is_gone(self) -> None:
        target, _ = self.pair()
        self.b.admin("/load", {"database": "shop", "table": target, "rows": 5})
        self.b.stop(signal.SIGKILL)
        self.stop_zookeeper()
        try:
            self.b.start()
            self.b.ready()
            self.assertFalse(self.b.has_keeper())
        finally:
            self.start_zookeeper()
        read = f"SELECT total_replicas AS n, is_readonly AS r FROM system.replicas WHERE table = '{target}'"
        until("the replica is there again", lambda: self.b.rows(read) == [{"n": 2, "r": 0}])
        self.assertEqual(self.b.rows(f"SELECT count() AS c FROM shop.{target}"), [{"c": 5}])


if __name__ == "__main__":
    unittest.main()
