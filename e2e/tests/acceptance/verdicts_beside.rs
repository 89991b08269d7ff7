//! Verdicts beside the publication itself: cleanup, definitions, members, tenancy; and that the page is covered.

use crate::Case;
use crate::looks::{TARGET, text, truth};
use crate::page::nothing_is_left_out;
use crate::stage::{SOON, SPACE, Stage, expect};
use crate::verdicts::{
    PRIVATE, applied, ends, inspected, partial, settled, slot_is, spec, target_is, verdicts,
};
use base64::Engine as _;
use publication_e2e::error::Context;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::PLATFORM;
use publication_e2e::proxy::Fault;
use publication_e2e::{Error, Result};
use serde_json::json;
use std::collections::BTreeMap;

pub const CASES: &[(&str, usize, Case)] = &[
    ("verdict_drop_failed", 2, |s| Box::pin(drop_failed(s))),
    ("verdict_member_reverted", 2, |s| Box::pin(member_reverted(s))),
    ("verdict_unsafe_identity", 2, |s| Box::pin(unsafe_identity(s))),
    ("verdict_rebaselined", 2, |s| Box::pin(rebaselined(s))),
    ("verdict_not_needed_record_restored", 2, |s| Box::pin(record_restored(s))),
    ("verdict_by_an_author", 2, |s| Box::pin(by_an_author(s))),
    ("verdict_without_object", 2, |s| Box::pin(without_object(s))),
    ("verdict_rebound", 2, |s| Box::pin(rebound(s))),
    ("verdict_page_is_covered", 2, |_| Box::pin(async { nothing_is_left_out(RUN) })),
];

/// Blocks of the page that the cases of verdicts run.
const RUN: &[&str] = &[
    "inspect",
    "verdicts",
    "finish-in-place",
    "private-name",
    // By the cases of authority and of a lost Keeper.
    "facade-state",
    "restore-replica",
    "drop-facade",
    "accept-loss",
    "look-at-cluster",
    "swap",
    "committed",
    "not-applied",
    "finish-absent",
    "revert-absent",
    "failed-unchanged",
    "fresh-name",
    "retry",
    "name-cleared",
    "drop-again",
    "finish-reverted",
    "private-retired",
    "rebaselined",
    "rebound-cluster",
    "keep-row",
    "restore-row",
    "rebound-slot",
    "orphan",
];

// proves: G-4
async fn drop_failed(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.ddl_fail("DROP TABLE", 359, "too large", 1).await?;
    s.env.publish(&s.publication(5)).await?;
    s.blocked("CLEANUP_BLOCKED").await?;
    s.run_sh("drop-again", &[]).await?;
    ends(s, "Succeeded", "COMPLETED").await?;
    s.published(5).await
}

// proves: F-2, G-2
async fn member_reverted(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    // Published everywhere, and kept from cleanup until the member has gone back.
    s.env.cluster.member(1)?.replica_fault(&s.database, TARGET, "queue_size", json!(3)).await?;
    s.env.publish(&s.publication(5)).await?;
    s.status("Committed", |o| o["status"]["phase"] == "Committed").await?;
    s.swap_on(1).await?;
    s.env.cluster.member(1)?.replica_clear().await?;
    s.nudge().await?;
    s.blocked("CLEANUP_BLOCKED").await?;
    s.run_sql("finish-reverted", 1).await?;
    s.nudge().await?;
    ends(s, "Succeeded", "COMPLETED").await?;
    s.published(5).await
}

/// It went back right before the retire, which moved the new table there: nothing is lost, and a person sorts it out.
// proves: J-2, G-2, G-3
async fn unsafe_identity(s: &mut Stage) -> Result<()> {
    s.statement_timeout(1).await?;
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    let rule = s.env.rule(s.fault_of_cas(Fault::HoldRequest, "RETIRE_DISPATCHING"))?;
    s.env.publish(&s.publication(5)).await?;
    rule.reached(1, SOON).await?;
    s.swap_on(1).await?;
    rule.release();
    s.blocked("UNSAFE_CLEANUP_IDENTITY").await?;
    let tables = s.tables_of(1).await?;
    let retired = tables.keys().find(|name| name.contains("__retired_")).context("a retired name")?;
    s.run_sql_with("private-retired", 0, &[("orders__retired_0123456789abcdef", retired)]).await?;
    s.run_sql("swap", 1).await?;
    applied(s, "committed").await?;
    ends(s, "Succeeded", "COMPLETED").await?;
    let tables =
        BTreeMap::from([(TARGET.to_owned(), generations.new), (PRIVATE.to_owned(), generations.old)]);
    s.expect_tables(&[tables.clone(), tables]).await
}

/// From some moment on every member prints the tables of this case differently, as after an upgrade.
// proves: J-5
async fn rebaselined(s: &mut Stage) -> Result<()> {
    partial(s).await?;
    let printed = format!(
        "if(database = '{}', replaceOne(create_table_query, 'String', 'String DEFAULT \\'x\\''), create_table_query)",
        s.database
    );
    for member in &s.env.cluster.members {
        let overlay = json!({"table": "tables", "replace": {"create_table_query": printed}});
        member.admin("POST", "/system/overlay", overlay).await?;
    }
    s.nudge().await?;
    s.blocked("OUTCOME_UNKNOWN").await?;
    let seen = inspected(s).await?;
    expect(&seen.to_string(), &seen.to_string().contains("printed differently"), &true)?;
    applied(s, "rebaselined").await?;
    s.nudge().await?;
    s.blocked("PARTIAL_TERMINAL").await?;
    s.run_sql("finish-in-place", 1).await?;
    s.nudge().await?;
    let ended = ends(s, "Succeeded", "COMPLETED").await;
    for member in &s.env.cluster.members {
        member.admin("POST", "/system/clear", json!({"table": "tables"})).await?;
    }
    ended
}

/// A record that does not decode is never overwritten by the operator; a person puts it back under its version.
// proves: C-9
async fn record_restored(s: &mut Stage) -> Result<()> {
    partial(s).await?;
    let good = s.slot().await?;
    let row = |what: &str| {
        format!(
            "SELECT {what} FROM publication.publication_authority WHERE operation_id = '{}'",
            good.operation_id
        )
    };
    let key = s.env.cluster.sql(0, &row("target_key")).await?;
    let payload = s.env.cluster.sql(0, &row("base64Encode(payload)")).await?;
    let payload = base64::engine::general_purpose::STANDARD.decode(payload.trim()).context("the payload")?;
    let payload = String::from_utf8(payload).context("the payload")?;
    let spoil = format!(
        "ALTER TABLE publication.publication_authority UPDATE payload = 'spoilt' WHERE target_key = '{}'",
        key.trim()
    );
    s.env.cluster.sql(0, &spoil).await?;
    s.nudge().await?;
    s.blocked("AUTHORITY_MALFORMED").await?;
    s.run_sql("keep-row", 0).await?;
    let version = s.env.cluster.sql(0, &row("_version")).await?;
    let quoted = payload.replace('\\', "\\\\").replace('\'', "\\'");
    let known = [("PAYLOAD", quoted.as_str()), ("KEY", key.trim()), ("VERSION", version.trim())];
    s.run_sql_with("restore-row", 0, &known).await?;
    s.nudge().await?;
    s.blocked("PARTIAL_TERMINAL").await?;
    s.run_sql("finish-in-place", 1).await?;
    s.nudge().await?;
    ends(s, "Succeeded", "COMPLETED").await
}

// proves: J-1
async fn by_an_author(s: &mut Stage) -> Result<()> {
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "author", "namespace": SPACE}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "author", "namespace": SPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "publication-author"},
            "subjects": [{"kind": "ServiceAccount", "name": "author", "namespace": SPACE}],
        }),
    ];
    for object in &objects {
        s.env.apply(object).await?;
    }
    let token = s.env.control_plane.service_account_token(SPACE, "author").await?;
    let kubeconfig = s.env.control_plane.kubeconfig_for_token("author", &token)?;
    let object = json!({"status": {"operationId": "0".repeat(64)}});
    for namespace in [PLATFORM, SPACE] {
        let mut verdict = spec(s, &object, "Committed", &"0".repeat(64));
        verdict["metadata"]["namespace"] = namespace.into();
        let file = s.env.work.path().join("verdict.json");
        std::fs::write(&file, verdict.to_string()).context("write the verdict")?;
        let (kubeconfig, file) = (kubeconfig.display().to_string(), file.display().to_string());
        let refused = s.env.control_plane.kubectl(["--kubeconfig", &kubeconfig, "create", "-f", &file]).await;
        match refused {
            Err(error) => expect(&error.to_string(), &error.to_string().contains("forbidden"), &true)?,
            Ok(made) => return Err(Error::other("an author's verdict was taken", made)),
        }
    }
    Ok(())
}

// proves: J-1
async fn without_object(s: &mut Stage) -> Result<()> {
    let generations = partial(s).await?;
    let object = s.status("an operation", |o| o["status"]["operationId"].is_string()).await?;
    let operation = text(&object["status"]["operationId"]).to_owned();
    s.env.control_plane.delete(Kind::Publication, SPACE, &s.name()).await?;
    s.status("DeletionBlocked", |o| truth(o, "DeletionBlocked") == Some("True")).await?;
    s.run_sh("orphan", &[("OPERATION", &operation)]).await?;
    s.env.control_plane.wait_gone(Kind::Publication, SPACE, &s.name(), SOON).await?;
    slot_is(s, "IN_PROGRESS").await?;
    s.run_sql("private-name", 0).await?;
    s.run_sql("swap", 1).await?;
    applied(s, "committed").await?;
    slot_is(s, "COMPLETED").await?;
    target_is(s, generations.new).await?;
    s.expect_entries(1, 1, 0).await
}

/// Nothing changed in the cluster: a Rebound finds it bound already, and one of a slot has nothing to do.
// proves: J-4
async fn rebound(s: &mut Stage) -> Result<()> {
    partial(s).await?;
    applied(s, "rebound-cluster").await?;
    let before = verdicts(s).await?;
    s.run_sh("rebound-slot", &[]).await?;
    let name = verdicts(s).await?.into_iter().find(|name| !before.contains(name)).context("a new verdict")?;
    let (kind, _, message) = settled(s, &name).await?;
    expect(&message, &(kind == "Refused" && message.contains("already")), &true)
}
