//! Certificates and keys of one throw-away control plane.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::error::{Context, Result};

#[derive(Debug)]
pub struct Pki {
    pub ca_pem: String,
    pub serving_cert: PathBuf,
    pub serving_key: PathBuf,
    /// Signs and verifies ServiceAccount tokens.
    pub account_key: PathBuf,
    pub account_public: PathBuf,
}

impl Pki {
    pub fn create(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir).context("create the PKI directory")?;
        let ca_key = KeyPair::generate().context("CA key")?;
        let mut ca = CertificateParams::new(Vec::new()).context("CA")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "publication-e2e");
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_pem = ca.self_signed(&ca_key).context("CA certificate")?.pem();
        let issuer = Issuer::new(ca, ca_key);

        let key = KeyPair::generate().context("serving key")?;
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut serving = CertificateParams::new(names).context("serving certificate")?;
        serving.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serving = serving.signed_by(&key, &issuer).context("serving certificate")?;

        let account = KeyPair::generate().context("ServiceAccount key")?;
        let write = |name: &str, text: String| -> Result<PathBuf> {
            let path = dir.join(name);
            std::fs::write(&path, text).context(format!("write {}", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            ca_pem,
            serving_cert: write("apiserver.crt", serving.pem())?,
            serving_key: write("apiserver.key", key.serialize_pem())?,
            account_key: write("sa.key", account.serialize_pem())?,
            account_public: write("sa.pub", account.public_key_pem())?,
        })
    }
}
