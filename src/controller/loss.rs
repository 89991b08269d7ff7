//! `spec.acceptAuthorityLoss` (B-6, F-2): what it takes to honour it is read here, and the objects end here. When it may
//! be honoured is [`publication_protocol::loss`]'s to say.

use super::context::Context;
use super::environment::now;
use super::publication;
use super::resolve;
use crate::api::{ClusterPublication, PublicationCluster};
use crate::clickhouse::{Authority, Connection, DistributedDdl, MemberCatalog};
use crate::cluster_access;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use publication_protocol::admission::{Finding, label, read_failure};
use publication_protocol::code::ErrorCode;
use publication_protocol::identity::RootId;
use publication_protocol::inventory::Inventory;
use publication_protocol::loss::{Borne, Relying, accepted, ended, is_lost, may_end};
use publication_protocol::ports::ControlTable;
use publication_protocol::sqltext::TableName;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Objects in one page of a list.
const PAGE_SIZE: u32 = 200;

/// What came of the field on a facade that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Accepted {
    /// Not yet: what stands against it.
    Open(Finding),
    /// So many objects ended Failed.
    Ended(usize),
}

impl Accepted {
    /// To be looked at again.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// As a condition's reason.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Open(_) => "LossNotHonoured",
            Self::Ended(_) => "LossAccepted",
        }
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(finding) => f.write_str(&finding.message),
            Self::Ended(count) => write!(f, "the loss was accepted: {count} publications ended Failed"),
        }
    }
}

/// One look at what is lost on a cluster.
pub(super) struct Loss<'a> {
    pub(super) ctx: &'a Context,
    pub(super) cluster: &'a PublicationCluster,
    pub(super) connection: &'a Arc<Connection>,
    pub(super) inventory: &'a Inventory,
}

type Object = Arc<ClusterPublication>;

impl Loss<'_> {
    /// The facade is gone from every member. Ends what relied on it; then a new root may be drawn.
    ///
    /// # Errors
    /// What stands against that.
    pub(super) async fn accept_gone(&self, known: Option<RootId>) -> Result<(), Finding> {
        let objects = self.objects().await?;
        let lost: BTreeSet<RootId> = match known {
            Some(root) => BTreeSet::from([root]),
            None => objects.iter().filter_map(|o| resolve::shown(o)).collect(),
        };
        let root = accepted(&self.cluster.spec.accept_authority_loss, &lost)?;
        let unresolved: Vec<Object> =
            objects.into_iter().filter(|o| !resolve::is_finished(o) && resolve::shown(o).is_some()).collect();
        let (relying, others): (Vec<Object>, Vec<Object>) =
            unresolved.into_iter().partition(|o| resolve::shown(o) == Some(root));
        self.end(&relying, root).await?;
        // Whoever showed yet another root is given up by naming that one.
        let Some(other) = others.first() else { return Ok(()) };
        let shown = resolve::shown(other).map(|root| root.to_string()).unwrap_or_default();
        let message = format!("{} is unresolved and has shown another root, {shown}", named(other));
        Err(Finding::block(ErrorCode::AuthorityLost, "B-6", message))
    }

    /// The facade is there, and Keeper may have been restored to an older state: ends the objects whose records are
    /// lost (F-2), nothing else. None = nothing is to be given up.
    pub(super) async fn end_lost(&self, root: RootId) -> Option<Accepted> {
        let field = self.cluster.spec.accept_authority_loss.clone();
        let given_up = RootId::try_from(field).ok()?;
        let ended = async {
            let mut relying = Vec::new();
            for object in self.objects().await? {
                let concerned = !resolve::is_finished(&object) && resolve::shown(&object) == Some(given_up);
                if concerned && self.is_lost(&object, root).await? {
                    relying.push(object);
                }
            }
            self.end(&relying, given_up).await.map(|()| relying.len())
        };
        match ended.await {
            Ok(0) => None,
            Ok(count) => Some(Accepted::Ended(count)),
            Err(finding) => Some(Accepted::Open(finding)),
        }
    }

    /// F-2, read afresh.
    async fn is_lost(&self, object: &Object, root: RootId) -> Result<bool, Finding> {
        let at = now();
        let intent = cluster_access::intent(&self.ctx.kube_uid, object, self.cluster, root, at.wall_ms)?;
        let read = Authority::new(Arc::clone(self.connection)).read_all(&intent.key().to_string()).await;
        let key = format!("loss/{}", object.uid().unwrap_or_default());
        let mut remembered = self.ctx.remembered(&key);
        let lost = is_lost(&intent, &read, at, &mut remembered.memory.stale_since);
        if remembered.memory.stale_since.is_some() {
            self.ctx.remember(&key, remembered);
        } else {
            self.ctx.forget(&key);
        }
        lost
    }

    /// Objects of this cluster, as the API server has them: what a cache does not show yet must not be forgotten here.
    async fn objects(&self) -> Result<Vec<Object>, Finding> {
        let api: Api<ClusterPublication> = Api::all(self.ctx.client.clone());
        let mut params = ListParams::default().limit(PAGE_SIZE);
        let mut found = Vec::new();
        loop {
            let page = api.list(&params).await.map_err(|_| {
                let message = "the publications cannot be listed; looking again";
                Finding::wait(ErrorCode::AuthorityUnavailable, "B-6", message)
            })?;
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            found.extend(page.items.into_iter().filter(|o| resolve::is_of(o, self.cluster)).map(Arc::new));
            match next {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// Ends these objects Failed, once nothing stands against it.
    async fn end(&self, objects: &[Object], root: RootId) -> Result<(), Finding> {
        let relying = objects
            .iter()
            .map(|object| {
                let names = cluster_access::names(object, &self.cluster.spec.cluster_name)?;
                Ok(Relying { object: named(object), names })
            })
            .collect::<Result<Vec<_>, Finding>>()?;
        let ddl = DistributedDdl::new(Arc::clone(self.connection), Arc::new(now));
        let queue =
            ddl.all_ours().await.map_err(|failure| read_failure("system.distributed_ddl_queue", failure))?;
        may_end(&relying, &queue, &self.borne(&relying).await?)?;
        for object in objects {
            publication::end_lost(object, self.ctx, ended(root)).await.map_err(|_| {
                let message = format!("the status of {} could not be written; looking again", named(object));
                Finding::wait(ErrorCode::AuthorityUnavailable, "B-6", message)
            })?;
            tracing::warn!(object = named(object), "ended: the platform accepted the loss of its records");
        }
        Ok(())
    }

    /// What the members have under names of these objects.
    async fn borne(&self, relying: &[Relying]) -> Result<Vec<Borne>, Finding> {
        let mut by_database: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for Relying { names, .. } in relying {
            let (candidates, targets) = by_database.entry(&names.database).or_default();
            candidates.insert(&names.candidate);
            targets.insert(&names.target);
        }
        let catalog = MemberCatalog::new(Arc::clone(self.connection));
        let mut borne = Vec::new();
        for (database, (candidates, targets)) in by_database {
            let (candidates, targets): (Vec<&str>, Vec<&str>) =
                (candidates.into_iter().collect(), targets.into_iter().collect());
            let found = catalog.borne(database, &candidates, &targets).await;
            let found = found.map_err(|(endpoint, failure)| read_failure(&endpoint, failure))?;
            for (server, tables) in found {
                let member =
                    self.inventory.by_uuid(&server).map_or_else(|| format!("server {server}"), label);
                borne.extend(tables.into_iter().map(|table| Borne {
                    member: member.clone(),
                    table: TableName { database: database.to_owned(), table },
                }));
            }
        }
        Ok(borne)
    }
}

fn named(object: &ClusterPublication) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
