"""The server configuration of kind/, loaded by the engine: its pods cannot be started here."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

from test_support import HERE, NODE_PYTHON, ClusterTest, free_port

CONFIG = HERE.parents[1] / "kind/clickhouse/config"
MAIN = """<clickhouse><users_config>{0}/users.xml</users_config><tcp_port>{1}</tcp_port></clickhouse>"""
USERS = """<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default><password></password>
<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
<access_management>1</access_management></default></users></clickhouse>"""
KEEPER = """<clickhouse><zookeeper replace="replace"><node><host>127.0.0.1</host><port>{0}</port></node></zookeeper>
</clickhouse>"""
ENV = {"POD_NAME": "ch-1", "POD_HOST": "ch-1.ch.clickhouse.svc.cluster.local", "PUBLISHER_PASSWORD": "p", "CLUSTER_SECRET": "s"}
QUERIES = {
    "macros": "SELECT macro, substitution FROM system.macros ORDER BY macro",
    "members": "SELECT shard_num, replica_num, host_name, port, internal_replication FROM system.clusters "
               "WHERE cluster = 'main' ORDER BY replica_num",
    "create": "CREATE DATABASE shop ENGINE = Atomic",
    "replicated": "CREATE TABLE shop.t UUID '00000000-0000-4000-8000-000000000001' (id UInt64) "
                  "ENGINE = ReplicatedMergeTree ORDER BY id",
    "replica": "SELECT zookeeper_path, replica_name FROM system.replicas WHERE table = 't'",
    "map": "CREATE TABLE shop.m (k String) ENGINE = KeeperMap('/publication/x') PRIMARY KEY k",
    "grants": "SELECT DISTINCT toString(access_type) FROM system.grants WHERE user_name = 'publisher'",
}
SCRIPT = """
import chdb, json, os, sys
work, queries = sys.argv[1], json.loads(sys.argv[2])
connection = chdb.connect(f"{work}/data?config-file={work}/config.xml")
rows = {name: str(connection.query(sql, "JSONCompactEachRow")).split("\\n") for name, sql in queries.items()}
print(json.dumps(rows), flush=True)
os._exit(0)  # an attached Replicated table would hang close()
"""


class KindConfig(ClusterTest):
    @classmethod
    def setUpClass(cls) -> None:
        cls.work, cls.nodes, cls.port = tempfile.mkdtemp(prefix="kind-test-"), [], free_port()
        cls.zookeeper_on(cls.port)

    def setUp(self) -> None:
        """No members."""

    def test_the_engine_takes_it(self) -> None:
        work = Path(self.work)
        for folder in ("config.d", "users.d"):
            (work / folder).mkdir()
        shutil.copy(CONFIG / "cluster.xml", work / "config.d/cluster.xml")
        shutil.copy(CONFIG / "users.xml", work / "users.d/publisher.xml")
        (work / "config.d/zz.xml").write_text(KEEPER.format(self.port))
        (work / "config.xml").write_text(MAIN.format(work, free_port()))
        (work / "users.xml").write_text(USERS)
        done = subprocess.run(
            [NODE_PYTHON, "-c", SCRIPT, self.work, json.dumps(QUERIES)], env={**os.environ, **ENV}, capture_output=True,
            text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {name: [json.loads(line) for line in lines if line] for name, lines in json.loads(done.stdout).items()}
        self.assertEqual(rows["macros"], [["cluster", "main"], ["replica", "ch-1"], ["shard", "01"]])
        self.assertEqual(rows["members"], [
            [1, at + 1, f"ch-{at}.ch.clickhouse.svc.cluster.local", 9000, 1] for at in range(2)])
        self.assertEqual(rows["replica"], [["/clickhouse/tables/00000000-0000-4000-8000-000000000001/01", "ch-1"]])
        granted = {row[0] for row in rows["grants"]}
        self.assertLessEqual({"CLUSTER", "SELECT", "DROP TABLE", "ALTER UPDATE", "SHOW ROLES"}, granted)
        # 26.9 says of a source how it may be used.
        self.assertTrue({"REMOTE"} <= granted or {"READ", "WRITE"} <= granted, granted)

    def test_keeper(self) -> None:
        """Nothing here can load it; what it names must fit the manifests and the servers' configuration."""
        keeper, servers = xml.parse(CONFIG / "keeper.xml"), xml.parse(CONFIG / "cluster.xml")
        self.assertEqual(keeper.findtext("keeper_server/tcp_port"), servers.findtext("zookeeper/node/port"))
        self.assertIn(f"port: {keeper.findtext('keeper_server/tcp_port')}", (CONFIG.parent / "keeper.yaml").read_text())
        self.assertEqual(keeper.findtext("keeper_server/server_id"), keeper.findtext("keeper_server/raft_configuration/server/id"))
