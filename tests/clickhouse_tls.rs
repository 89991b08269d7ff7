//! TLS: own authority, client certificate, and failures that are known to have sent nothing.

#![allow(clippy::unwrap_used)]

mod clickhouse_support;

use clickhouse_support::{PASSWORD, Script, Server, USER, answer, raw_row, server_uuid, spec};
use publication_operator::clickhouse::{
    Authority, BootstrapOutcome, ClientCertificate, Connection, ConnectionError, ConnectionSpec,
    DistributedDdl, TlsError, TlsMaterial,
};
use publication_protocol::authority::{Mutation, MutationOutcome, Now};
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Action, CorrelationToken, Random, RootId};
use publication_protocol::ports::ControlTable;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;

struct Authorities {
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Authorities {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { ca: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    fn pem(&self) -> Vec<u8> {
        self.ca.pem().into_bytes()
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.ca).unwrap(), key)
    }

    fn acceptor(&self, name: &str, clients: Option<&Authorities>) -> tokio_rustls::TlsAcceptor {
        let (certificate, key) = self.issue(name);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.ca.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        tokio_rustls::TlsAcceptor::from(Arc::new(config))
    }
}

fn tls_spec(port: u16, ca: &Authorities, client: Option<ClientCertificate>) -> ConnectionSpec {
    let tls = TlsMaterial { ca_pem: Some(ca.pem()), client };
    ConnectionSpec { tls, ..spec(&format!("https://127.0.0.1:{port}")) }
}

async fn bootstrap(spec: ConnectionSpec) -> BootstrapOutcome {
    let connection = Arc::new(Connection::new(spec).unwrap());
    let clock = Arc::new(|| Now { boot_ms: 0, wall_ms: 0 });
    let token = CorrelationToken::draw(Digest::of_bytes(b"o"), Action::Bootstrap, 0, &Random([3; 32]));
    DistributedDdl::new(connection, clock)
        .bootstrap(&server_uuid(), RootId::draw(&Random([1; 32])), &token)
        .await
}

fn success() -> Script {
    Script::KeepAlive(answer("200 OK", "", ""))
}

// proves: C-4
#[tokio::test]
async fn own_authority_is_trusted_and_no_other() {
    let (ours, other) = (Authorities::new(), Authorities::new());
    let server = Server::start_with(success(), Some(ours.acceptor("127.0.0.1", None))).await;
    assert_eq!(bootstrap(tls_spec(server.port, &ours, None)).await, BootstrapOutcome::Answered(None));
    assert_eq!(server.counts(), (1, 1));
    let received = server.received();
    assert!(received.contains(USER) && received.contains(PASSWORD));
    // Another authority, the public roots, another name: refused before a byte of the request is written.
    assert_eq!(bootstrap(tls_spec(server.port, &other, None)).await, BootstrapOutcome::NotSent);
    let public = spec(&format!("https://127.0.0.1:{}", server.port));
    assert_eq!(bootstrap(public).await, BootstrapOutcome::NotSent);
    let misnamed = Server::start_with(success(), Some(ours.acceptor("elsewhere", None))).await;
    assert_eq!(bootstrap(tls_spec(misnamed.port, &ours, None)).await, BootstrapOutcome::NotSent);
    assert_eq!(server.counts().1 + misnamed.counts().1, 1);
    // Plain HTTP on a TLS port, and the other way round.
    assert_ne!(
        bootstrap(spec(&format!("http://127.0.0.1:{}", server.port))).await,
        BootstrapOutcome::Answered(None)
    );
    let plain = Server::start(success()).await;
    assert_eq!(bootstrap(tls_spec(plain.port, &ours, None)).await, BootstrapOutcome::NotSent);
}

// proves: C-4, C-5
#[tokio::test]
async fn a_client_certificate_is_shown() {
    let (ours, clients) = (Authorities::new(), Authorities::new());
    let (certificate, key) = clients.issue("operator");
    let client = ClientCertificate {
        chain_pem: certificate.pem().into_bytes(),
        key_pem: key.serialize_pem().into_bytes(),
    };
    let server = Server::start_with(success(), Some(ours.acceptor("127.0.0.1", Some(&clients)))).await;
    let with = tls_spec(server.port, &ours, Some(client));
    assert_eq!(bootstrap(with).await, BootstrapOutcome::Answered(None));
    assert_eq!(server.counts(), (1, 1));
    // TLS 1.3 learns of a refused client only after it has written: unknown, and still one connection.
    let without = Arc::new(Connection::new(tls_spec(server.port, &ours, None)).unwrap());
    let answer = Authority::new(without).mutate(&server_uuid(), &Mutation::Insert(raw_row("{}"))).await;
    assert_eq!((answer.outcome, answer.transport_calls), (MutationOutcome::Unknown, 1));
    assert_eq!(server.counts(), (2, 1));
}

#[test]
fn malformed_material_is_refused_before_any_connection() {
    let ours = Authorities::new();
    let (certificate, key) = ours.issue("operator");
    let pem = |text: String| text.into_bytes();
    let with = |ca_pem: Option<Vec<u8>>, client: Option<ClientCertificate>| {
        let tls = TlsMaterial { ca_pem, client };
        Connection::new(ConnectionSpec { tls, ..spec("https://h:1") }).map(|_| ()).unwrap_err()
    };
    for ca in ["", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert_eq!(with(Some(ca.into()), None), ConnectionError::Tls(TlsError::Ca), "{ca}");
    }
    let foreign = KeyPair::generate().unwrap();
    for (chain_pem, key_pem) in [
        (vec![], pem(key.serialize_pem())),
        (pem(certificate.pem()), vec![]),
        (pem(certificate.pem()), pem(foreign.serialize_pem())),
    ] {
        let client = ClientCertificate { chain_pem, key_pem };
        let error = with(Some(ours.pem()), Some(client));
        assert_eq!(error, ConnectionError::Tls(TlsError::ClientCertificate));
    }
}
