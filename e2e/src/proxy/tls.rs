//! TLS towards the client: a CA of our own, and a client certificate when it is asked for.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};

use crate::error::{Context, Result};

/// PEM, as it goes into a Secret.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    pub certificate: String,
    pub key: String,
}

#[derive(Debug, Clone)]
pub struct Tls {
    /// PEM, as it goes into a ConfigMap.
    pub ca: String,
    pub client: ClientIdentity,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// With `client_required`, a client without the certificate of `client` is refused.
    pub fn new(client_required: bool) -> Result<Self> {
        let ca_key = KeyPair::generate().context("CA key")?;
        let mut ca = CertificateParams::new(Vec::new()).context("CA")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = ca.self_signed(&ca_key).context("CA certificate")?;
        let issuer = Issuer::new(ca, ca_key);
        let sign = |name: &str, usage| {
            let key = KeyPair::generate().context("key")?;
            let mut params = CertificateParams::new(vec![name.to_owned()]).context("certificate")?;
            params.extended_key_usages = vec![usage];
            Ok::<_, crate::Error>((params.signed_by(&key, &issuer).context("certificate")?, key))
        };
        let (server, server_key) = sign("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth)?;
        let (client, client_key) = sign("publisher", ExtendedKeyUsagePurpose::ClientAuth)?;

        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().context("TLS versions")?;
        let config = if client_required {
            let mut roots = RootCertStore::empty();
            roots.add(certificate.der().clone()).context("CA certificate")?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().context("client verifier")?)
        } else {
            config.with_no_client_auth()
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let config = config.with_single_cert(vec![server.der().clone()], key).context("TLS server")?;
        let client = ClientIdentity { certificate: client.pem(), key: client_key.serialize_pem() };
        Ok(Self { ca: certificate.pem(), client, config: Arc::new(config) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}
