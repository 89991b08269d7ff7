"""The spec file of a test cluster, and the engine configuration made from it."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

# Macros are server constants like hostName(): evaluated on the member that runs the text.
MACRO_UUID = "e2e_server_uuid"
MACRO_HOST = "e2e_host_name"


@dataclass(frozen=True)
class Endpoint:
    """One replica as remote_servers names it."""

    shard: str
    replica: str
    host: str
    port: int


@dataclass(frozen=True)
class Cluster:
    name: str
    endpoints: tuple[Endpoint, ...]
    internal_replication: bool

    def shards(self) -> list[list[Endpoint]]:
        groups: dict[str, list[Endpoint]] = {}
        for endpoint in self.endpoints:
            groups.setdefault(endpoint.shard, []).append(endpoint)
        return list(groups.values())


@dataclass
class Member:
    host: str
    tcp_port: int
    http_port: int
    admin_port: int
    replica: str
    shard: str
    dir: str
    server_uuid: str
    host_name: str


@dataclass
class Spec:
    path: str
    index: int
    cluster: str
    clusters: dict[str, Cluster]
    zookeeper: str
    keeper_map_prefix: str
    ddl_queue: str
    members: list[Member]
    users: dict[str, str] = field(default_factory=dict)
    grants: dict[str, list[str]] = field(default_factory=dict)
    server_settings: dict[str, str] = field(default_factory=dict)
    session_timeout_ms: int = 10_000
    operation_timeout_ms: int = 5_000

    @property
    def me(self) -> Member:
        return self.members[self.index]


def _extra(name: str, raw: Any, default_internal: bool) -> Cluster:
    """A list of endpoints, or {"internal_replication": …, "endpoints": […]}."""
    internal = default_internal
    if isinstance(raw, dict):
        internal = bool(raw.get("internal_replication", internal))
        raw = raw["endpoints"]
    return Cluster(
        name,
        tuple(
            Endpoint(str(e.get("shard", "01")), str(e.get("replica", "")), e["host"], int(e["port"])) for e in raw
        ),
        internal,
    )


def load(path: str, index: int) -> Spec:
    with open(path, encoding="utf-8") as handle:
        raw = json.load(handle)
    members = [
        Member(
            host=m["host"],
            tcp_port=int(m["tcp_port"]),
            http_port=int(m["http_port"]),
            admin_port=int(m["admin_port"]),
            replica=m["replica"],
            shard=str(m.get("shard", "01")),
            dir=m["dir"],
            server_uuid=m["server_uuid"],
            host_name=m.get("host_name") or f"{raw['cluster']}-{m['replica']}",
        )
        for m in raw["members"]
    ]
    internal = bool(raw.get("internal_replication", True))
    main = Cluster(
        raw["cluster"],
        tuple(Endpoint(m.shard, m.replica, m.host, m.tcp_port) for m in members),
        internal,
    )
    clusters = {main.name: main}
    for name, extra in (raw.get("extra_clusters") or {}).items():
        clusters[name] = _extra(name, extra, internal)
    return Spec(
        path=os.path.abspath(path),
        index=index,
        cluster=main.name,
        clusters=clusters,
        zookeeper=raw["zookeeper"],
        keeper_map_prefix=raw.get("keeper_map_prefix", "/keeper_map"),
        ddl_queue=raw.get("ddl_queue", "/clickhouse/task_queue/ddl").rstrip("/"),
        members=members,
        users={name: str(user["password"]) for name, user in (raw.get("users") or {}).items()},
        grants={name: list(user.get("grants", [])) for name, user in (raw.get("users") or {}).items()},
        server_settings={k: str(v) for k, v in (raw.get("server_settings") or {}).items()},
        session_timeout_ms=int(raw.get("session_timeout_ms", 10_000)),
        operation_timeout_ms=int(raw.get("operation_timeout_ms", 5_000)),
    )


def engine_host(spec: Spec, endpoint: Endpoint) -> str:
    """The host given to the engine: itself as 127.0.0.1, the only loopback address it takes as local."""
    if endpoint.host == spec.me.host and endpoint.port == spec.me.tcp_port:
        return "127.0.0.1"
    return endpoint.host


def _tag(name: str, value: object) -> str:
    return f"<{name}>{escape(str(value))}</{name}>"


def _cluster_xml(spec: Spec, cluster: Cluster) -> str:
    shards = []
    for shard in cluster.shards():
        replicas = "".join(
            "<replica>"
            + _tag("host", engine_host(spec, e))
            + _tag("port", e.port)
            + _tag("compression", "false")  # the shim speaks plain blocks only
            + "</replica>"
            for e in shard
        )
        internal = _tag("internal_replication", "true" if cluster.internal_replication else "false")
        shards.append(f"<shard>{internal}{replicas}</shard>")
    return f"<{cluster.name}>{''.join(shards)}</{cluster.name}>"


def _users_xml(spec: Spec) -> str:
    """Only `default` runs statements; the others are there for system.users and system.grants."""
    plain = "<password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>"
    users = f"<default>{plain}<access_management>1</access_management></default>"
    for name in spec.users:
        queries = "".join(_tag("query", grant) for grant in spec.grants.get(name, []))
        grants = f"<grants>{queries}</grants>" if queries else ""
        if name != "default":
            users += f"<{name}>{plain}{grants}</{name}>"
    return f"<clickhouse><users>{users}</users><profiles><default/></profiles><quotas><default/></quotas></clickhouse>"


def write_engine_config(spec: Spec) -> str:
    """Writes the engine's XML beside its data and returns the path."""
    me = spec.me
    os.makedirs(me.dir, exist_ok=True)
    nodes = ""
    for address in spec.zookeeper.split(","):
        host, _, port = address.rpartition(":")
        nodes += f"<node>{_tag('host', host)}{_tag('port', port)}</node>"
    macros = {
        "cluster": spec.cluster,
        "shard": me.shard,
        "replica": me.replica,
        MACRO_UUID: me.server_uuid,
        MACRO_HOST: me.host_name,
    }
    users_path = os.path.join(me.dir, "users.xml")
    with open(users_path, "w", encoding="utf-8") as handle:
        handle.write(_users_xml(spec))
    body = (
        f"{_tag('users_config', users_path)}<zookeeper>{nodes}{_tag('session_timeout_ms', spec.session_timeout_ms)}"
        f"{_tag('operation_timeout_ms', spec.operation_timeout_ms)}"
        # all engines have one server UUID, and a new session under one UUID ends the older ones
        f"{_tag('sessions_path', '/clickhouse/sessions/' + me.server_uuid)}</zookeeper>"
        + _tag("keeper_map_path_prefix", spec.keeper_map_prefix)
        + "<macros>" + "".join(_tag(k, v) for k, v in macros.items()) + "</macros>"
        + "".join(_tag(k, v) for k, v in spec.server_settings.items())
        + _tag("tcp_port", me.tcp_port)
        + _tag("interserver_http_host", me.host)
        + _tag("default_replica_path", "/clickhouse/tables/{uuid}/{shard}")
        + _tag("default_replica_name", "{replica}")
        + "<remote_servers>" + "".join(_cluster_xml(spec, c) for c in spec.clusters.values()) + "</remote_servers>"
        + f"<distributed_ddl>{_tag('path', spec.ddl_queue)}</distributed_ddl>"
    )
    path = os.path.join(me.dir, "engine.xml")
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(f"<clickhouse>{body}</clickhouse>")
    return path
