//! Secrets and CAs, read by GET when needed, never listed, watched or kept.

use crate::api::{CaRefKind, PublicationCluster};
use crate::clickhouse::{
    ClientCertificate, Connection, ConnectionError, ConnectionSpec, Endpoint, Timeouts, TlsError, TlsMaterial,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};
use publication_protocol::admission::Finding;
use publication_protocol::code::ErrorCode;
use publication_protocol::limits::Deadlines;
use std::collections::BTreeMap;
use std::time::Duration;

/// Who reads Secrets and CAs, and what to tell when that is not allowed.
#[derive(Clone, Copy)]
struct Reader<'a> {
    client: &'a Client,
    namespace: &'a str,
    denied: &'static str,
}

/// Makes the connection of one pass, from what the platform listed and nothing else.
pub(crate) async fn connect(client: &Client, cluster: &PublicationCluster) -> Result<Connection, Finding> {
    const DENIED: &str = "the operator's role does not allow it (chart value secrets.namespaces)";
    connect_as(client, cluster, DENIED).await
}

/// The same with the rights of whoever runs a command.
pub(crate) async fn connect_as_caller(
    client: &Client,
    cluster: &PublicationCluster,
) -> Result<Connection, Finding> {
    const DENIED: &str = "your kubeconfig does not allow it; ask the platform, or let them run the command";
    connect_as(client, cluster, DENIED).await
}

async fn connect_as(
    client: &Client,
    cluster: &PublicationCluster,
    denied: &'static str,
) -> Result<Connection, Finding> {
    let namespace = cluster.namespace().unwrap_or_default();
    let reader = Reader { client, namespace: &namespace, denied };
    let spec = &cluster.spec;
    let secret = reader.secret(&spec.auth.secret_ref.name, "auth.secretRef").await?;
    let user = text(&secret, "username", "auth.secretRef")?;
    let password = text(&secret, "password", "auth.secretRef")?;
    let mut tls = TlsMaterial::default();
    if let Some(refs) = &spec.tls {
        if let Some(ca) = &refs.ca_ref {
            tls.ca_pem = Some(reader.authority(ca.kind, &ca.name, &ca.key).await?);
        }
        if let Some(pair) = &refs.client_certificate_ref {
            let field = "tls.clientCertificateRef";
            let pair = reader.secret(&pair.name, field).await?;
            let chain_pem = bytes(&pair, "tls.crt", field)?;
            tls.client = Some(ClientCertificate { chain_pem, key_pem: bytes(&pair, "tls.key", field)? });
        }
    }
    let endpoints = spec
        .members
        .iter()
        .map(|member| {
            Endpoint::parse(&member.endpoint).ok_or_else(|| {
                let message = "members: an endpoint is not a URL of one server, as https://host:port";
                Finding::block(ErrorCode::SpecInvalid, "api", message)
            })
        })
        .collect::<Result<Vec<_>, Finding>>()?;
    Connection::new(ConnectionSpec {
        endpoints,
        user,
        password,
        tls,
        timeouts: Timeouts::with_send_deadline(Duration::from_millis(deadlines(cluster).send_deadline_ms())),
        cluster: spec.cluster_name.clone(),
        control_database: spec.control_database.clone(),
        known_servers: BTreeMap::new(),
    })
    .map_err(|error| refused(&error))
}

/// The field of the spec that a connection cannot be made from.
fn refused(error: &ConnectionError) -> Finding {
    let (code, field) = match error {
        ConnectionError::NoEndpoints | ConnectionError::DuplicateEndpoint => {
            (ErrorCode::SpecInvalid, "members")
        }
        ConnectionError::Credentials => (ErrorCode::CredentialsInvalid, "auth.secretRef"),
        ConnectionError::Tls(TlsError::Ca) => (ErrorCode::CredentialsInvalid, "tls.caRef"),
        ConnectionError::Tls(TlsError::ClientCertificate) => {
            (ErrorCode::CredentialsInvalid, "tls.clientCertificateRef")
        }
        ConnectionError::Tls(TlsError::Provider) => (ErrorCode::CredentialsInvalid, "tls"),
    };
    Finding::block(code, "api", format!("{field}: {error}"))
}

/// M: the cluster's deadlines.
pub(crate) fn deadlines(cluster: &PublicationCluster) -> Deadlines {
    let seconds = u64::try_from(cluster.spec.statement_timeout_seconds).unwrap_or(180);
    Deadlines { statement_timeout_ms: seconds * 1000 }
}

impl Reader<'_> {
    async fn secret(&self, name: &str, field: &str) -> Result<BTreeMap<String, ByteString>, Finding> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
        let found = api.get_opt(name).await.map_err(|e| self.unreadable(&e, "Secret", name, field))?;
        let found = found.ok_or_else(|| self.missing("Secret", name, field))?;
        Ok(found.data.unwrap_or_default())
    }

    async fn authority(&self, kind: CaRefKind, name: &str, key: &str) -> Result<Vec<u8>, Finding> {
        const FIELD: &str = "tls.caRef";
        match kind {
            CaRefKind::Secret => bytes(&self.secret(name, FIELD).await?, key, FIELD),
            CaRefKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace);
                let found =
                    api.get_opt(name).await.map_err(|e| self.unreadable(&e, "ConfigMap", name, FIELD))?;
                let found = found.ok_or_else(|| self.missing("ConfigMap", name, FIELD))?;
                let pem = found.data.unwrap_or_default().remove(key).ok_or_else(|| no_key(key, FIELD))?;
                Ok(pem.into_bytes())
            }
        }
    }

    fn missing(&self, kind: &str, name: &str, field: &str) -> Finding {
        let message = format!("{field}: {kind} {}/{name} does not exist; create it", self.namespace);
        Finding::block(ErrorCode::ReferenceNotFound, "api", message)
    }

    fn unreadable(&self, error: &kube::Error, kind: &str, name: &str, field: &str) -> Finding {
        let message = format!("{field}: {kind} {}/{name} cannot be read", self.namespace);
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                Finding::block(ErrorCode::ReferenceDenied, "api", format!("{message}; {}", self.denied))
            }
            _ => Finding::wait(ErrorCode::ReferenceNotFound, "api", message),
        }
    }
}

fn bytes(data: &BTreeMap<String, ByteString>, key: &str, field: &str) -> Result<Vec<u8>, Finding> {
    data.get(key).map(|value| value.0.clone()).ok_or_else(|| no_key(key, field))
}

fn text(data: &BTreeMap<String, ByteString>, key: &str, field: &str) -> Result<String, Finding> {
    let malformed = || {
        let message =
            format!("{field}: the key {key} is not text; store it as UTF-8 without control characters");
        Finding::block(ErrorCode::CredentialsInvalid, "api", message)
    };
    let value = String::from_utf8(bytes(data, key, field)?).map_err(|_| malformed())?;
    if value.chars().any(char::is_control) { Err(malformed()) } else { Ok(value) }
}

fn no_key(key: &str, field: &str) -> Finding {
    Finding::block(ErrorCode::CredentialsInvalid, "api", format!("{field}: the key {key} is missing; add it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T>(result: Result<T, Finding>) -> Result<(), String> {
        result.map(|_| ()).map_err(|finding| format!("{} {}", finding.code, finding.message))
    }

    #[test]
    fn a_secret_needs_its_keys_as_text() {
        let data = |value: &[u8]| BTreeMap::from([("password".to_owned(), ByteString(value.to_vec()))]);
        let password = |value: &[u8]| said(text(&data(value), "password", "auth.secretRef"));
        for fine in ["a@^b/", "пароль", " space ", ""] {
            assert_eq!(password(fine.as_bytes()), Ok(()), "{fine}");
        }
        let not_text = "CREDENTIALS_INVALID auth.secretRef: the key password is not text; store it as UTF-8 without control characters";
        for binary in [&b"\xff\xfe\x00"[..], b"a\0b", b"from echo\n", b"\x7f"] {
            assert_eq!(password(binary), Err(not_text.to_owned()), "{binary:?}");
        }
        assert_eq!(
            said(text(&data(b"x"), "username", "auth.secretRef")),
            Err("CREDENTIALS_INVALID auth.secretRef: the key username is missing; add it".to_owned())
        );
        assert_eq!(
            said(bytes(&BTreeMap::new(), "tls.key", "tls.clientCertificateRef")),
            Err("CREDENTIALS_INVALID tls.clientCertificateRef: the key tls.key is missing; add it".to_owned())
        );
    }

    #[test]
    fn what_a_connection_cannot_be_made_from_is_named_by_its_field() {
        let inputs = [
            (ConnectionError::NoEndpoints, "SPEC_INVALID members: there are no endpoints"),
            (ConnectionError::DuplicateEndpoint, "SPEC_INVALID members: an endpoint is listed twice"),
            (
                ConnectionError::Credentials,
                "CREDENTIALS_INVALID auth.secretRef: the user name cannot be sent: with a colon in it, user and password must be printable ASCII; rename the user",
            ),
            (
                ConnectionError::Tls(TlsError::Ca),
                "CREDENTIALS_INVALID tls.caRef: the bundle holds no usable PEM certificate; store the authority's certificates as PEM",
            ),
            (
                ConnectionError::Tls(TlsError::ClientCertificate),
                "CREDENTIALS_INVALID tls.clientCertificateRef: certificate and key are not a usable PEM pair; store the chain and its own key as PEM",
            ),
            (ConnectionError::Tls(TlsError::Provider), "CREDENTIALS_INVALID tls: TLS cannot be set up"),
        ];
        for (error, words) in inputs {
            assert_eq!(said::<()>(Err(refused(&error))), Err(words.to_owned()));
        }
    }
}
