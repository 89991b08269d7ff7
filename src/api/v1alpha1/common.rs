//! Shapes that more than one kind uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest free text in a status, in bytes; the schema's `maxLength` counts characters, so writers cut.
pub const MESSAGE_BYTES_MAX: usize = 256;

/// A Secret in the namespace of the object that names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A PublicationCluster in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalClusterRef {
    /// Name of the PublicationCluster.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A stable, documented error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorStatus {
    /// Stable error code in UPPER_SNAKE; each code has a documentation page.
    #[schemars(length(min = 1, max = 64))]
    pub code: String,
    /// What was found, for a person. Never holds credentials, SQL, row values or server messages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub message: String,
}
