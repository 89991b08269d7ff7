//! Version `v1alpha1` of the three kinds.

mod access;
mod cluster;
mod common;
mod publication;
mod publication_status;
mod rules;
mod verdict;

pub use access::{AccessRule, DatabasePattern, NamespaceFrom, NamespacePolicy};
pub use cluster::{
    Accept, Auth, CaRef, CaRefKind, Declare, DependentKind, History, Member, MemberStatus,
    PublicationCluster, PublicationClusterSpec, PublicationClusterStatus, Tls,
};
pub use common::{ErrorStatus, LocalClusterRef, MESSAGE_BYTES_MAX, SecretRef};
pub use publication::{ClusterPublication, ClusterPublicationSpec, ClusterRef, RowExpectation};
pub use publication_status::{
    ClusterPublicationStatus, GenerationStatus, Outcome, ReplicaStatementStatus, ReplicaStatus,
    StatementStatus,
};
pub use verdict::{Decision, PublicationVerdict, PublicationVerdictSpec, PublicationVerdictStatus};
