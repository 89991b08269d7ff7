//! TLS towards the servers: own certificate authority, optional client certificate, `ring`, no global state.

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::sync::Arc;

/// The platform's TLS material, PEM.
#[derive(Clone, Default)]
pub struct TlsMaterial {
    /// Certificate authorities; then the only ones that are trusted. None = the public roots.
    pub ca_pem: Option<Vec<u8>>,
    /// Certificate chain and key of the operator.
    pub client: Option<ClientCertificate>,
}

/// The operator's own certificate, PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// Chain, leaf first.
    pub chain_pem: Vec<u8>,
    /// Private key.
    pub key_pem: Vec<u8>,
}

impl fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMaterial")
            .field("own_ca", &self.ca_pem.is_some())
            .field("client_certificate", &self.client.is_some())
            .finish()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificate(..)")
    }
}

/// What is wrong with the material. Says where, never what was in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// Not a PEM bundle with at least one certificate.
    #[error("the bundle holds no usable PEM certificate; store the authority's certificates as PEM")]
    Ca,
    /// No PEM chain, no PEM key, or a pair that does not fit.
    #[error("certificate and key are not a usable PEM pair; store the chain and its own key as PEM")]
    ClientCertificate,
    /// The crypto provider lacks what TLS 1.2 or 1.3 need.
    #[error("TLS cannot be set up")]
    Provider,
}

/// Builds the client's configuration.
///
/// # Errors
/// [`TlsError`].
pub fn client_config(material: &TlsMaterial) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| TlsError::Provider)?
        .with_root_certificates(roots(material.ca_pem.as_deref())?);
    let Some(client) = &material.client else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(&client.chain_pem).ok_or(TlsError::ClientCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(&client.key_pem).map_err(|_| TlsError::ClientCertificate)?;
    builder.with_client_auth_cert(chain, key).map_err(|_| TlsError::ClientCertificate)
}

fn roots(ca_pem: Option<&[u8]>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    match ca_pem {
        None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            for certificate in certificates(pem).ok_or(TlsError::Ca)? {
                store.add(certificate).map_err(|_| TlsError::Ca)?;
            }
        }
    }
    Ok(store)
}

/// All certificates of a bundle; none when one is malformed or there is none.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!all.is_empty()).then_some(all)
}
