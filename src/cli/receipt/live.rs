//! Asks Keeper and the members, with the caller's rights. Reads only.

use crate::cli::inspect::{At, Cluster, Failure, slot};
use publication_protocol::ports::MembersAnswer;
use publication_protocol::receipt::{Document, Live, compare};

pub(super) async fn compared(document: &Document) -> Result<Live, Failure> {
    let (namespace, cluster) = document
        .publication_cluster
        .split_once('/')
        .ok_or("publicationCluster is not NAMESPACE/NAME; the receipt names no cluster to ask")?;
    let at = At { cluster: cluster.to_owned(), namespace: Some(namespace.to_owned()) };
    let cluster = Cluster::open(&at).await?;
    let names = &document.account.names;
    let seen = slot(&cluster, &names.database, &names.target).await?;
    Ok(match &seen {
        Some(seen) => compare(document, Some(&seen.slot), &seen.members),
        None => compare(document, None, &MembersAnswer::default()),
    })
}
