//! Certificates and kubeconfigs, as kubeadm makes them.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// The group of admin.conf's user since kubeadm 1.29: nothing but a `ClusterRoleBinding` gives it rights.
pub const ADMINS: &str = "kubeadm:cluster-admins";

/// A certificate could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate.
    #[error("cannot make the certificate of {name}: {source}")]
    Certificate {
        /// Its common name.
        name: String,
        /// Why.
        source: rcgen::Error,
    },
    /// The file.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text of a file.
    #[error("cannot encode {name} for a kubeconfig: {source}")]
    Encode {
        /// Which certificate or key.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// A certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The common name: the user, for the API server.
    pub name: String,
    /// The certificate.
    pub cert: String,
    /// The key, PKCS#8.
    pub key: String,
}

/// The certificate authority of a cluster.
#[derive(Debug)]
pub struct Pki {
    dir: PathBuf,
    ca: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Makes a CA, `apiserver.{crt,key}` for these names and addresses, and the service account keys `sa.{pub,key}`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(dir: &Path, addresses: &[IpAddr]) -> Result<Self, Error> {
        let at = |name: &str| {
            let name = name.to_owned();
            move |source| Error::Certificate { name, source }
        };
        fs::create_dir_all(dir).map_err(|source| Error::Write { path: dir.to_owned(), source })?;
        let key = KeyPair::generate().map_err(at("the CA"))?;
        let mut params = named("kubernetes-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = params.self_signed(&key).map_err(at("the CA"))?.pem();
        let pki = Self { dir: dir.to_owned(), ca, issuer: Issuer::new(params, key) };
        pki.write("ca.crt", &pki.ca)?;

        let service = "kubernetes.default.svc.cluster.local";
        let dots = service.match_indices('.').map(|(at, _)| at).chain([service.len()]);
        let mut names: Vec<_> = dots.map(|end| service[..end].to_owned()).collect();
        names.push("localhost".into());
        names.extend(addresses.iter().map(ToString::to_string));
        let mut params = CertificateParams::new(names).map_err(at("kube-apiserver"))?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server = pki.sign("kube-apiserver", &params)?;
        pki.write("apiserver.crt", &server.cert)?;
        pki.write("apiserver.key", &server.key)?;

        let accounts = KeyPair::generate().map_err(at("service accounts"))?;
        pki.write("sa.key", &accounts.serialize_pem())?;
        pki.write("sa.pub", &accounts.public_key_pem())?;
        Ok(pki)
    }

    /// The CA's certificate, PEM.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// The path of one of its files, for example `ca.crt`.
    #[must_use]
    pub fn path(&self, file: &str) -> String {
        self.dir.join(file).display().to_string()
    }

    /// A client certificate of a user in these groups. `valid_for`: from now; none is for ever.
    ///
    /// # Errors
    /// The name cannot stand in a certificate.
    pub fn client(&self, user: &str, groups: &[&str], valid_for: Option<Duration>) -> Result<Identity, Error> {
        let mut params = named(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Some(valid_for) = valid_for {
            params.not_after = (SystemTime::now() + valid_for).into();
        }
        self.sign(user, &params)
    }

    /// The user of admin.conf: in [`ADMINS`].
    ///
    /// # Errors
    /// As [`Pki::client`].
    pub fn admin(&self) -> Result<Identity, Error> {
        self.client("kubernetes-admin", &[ADMINS], None)
    }

    /// The user of super-admin.conf: in `system:masters`, who may do anything whatever RBAC says.
    ///
    /// # Errors
    /// As [`Pki::client`].
    pub fn super_admin(&self) -> Result<Identity, Error> {
        self.client("kubernetes-super-admin", &["system:masters"], None)
    }

    /// A kubeconfig as kubeadm writes it: everything inside, no files beside it. `server`: see [`url`].
    ///
    /// # Errors
    /// Never in practice: the certificates are text.
    pub fn kubeconfig(&self, user: &Identity, server: &str) -> Result<String, Error> {
        let (ca, cert, key) = (base64("ca", &self.ca)?, base64("crt", &user.cert)?, base64("key", &user.key)?);
        let name = &user.name;
        Ok(format!(
            "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {server}\n  name: kubernetes\n\
             contexts:\n- context:\n    cluster: kubernetes\n    user: {name}\n  name: {name}@kubernetes\n\
             current-context: {name}@kubernetes\nkind: Config\npreferences: {{}}\nusers:\n- name: {name}\n  user:\n    \
             client-certificate-data: {cert}\n    client-key-data: {key}\n"
        ))
    }

    fn sign(&self, name: &str, params: &CertificateParams) -> Result<Identity, Error> {
        let at = |source| Error::Certificate { name: name.to_owned(), source };
        let key = KeyPair::generate().map_err(at)?;
        let cert = params.signed_by(&key, &self.issuer).map_err(at)?.pem();
        Ok(Identity { name: name.to_owned(), cert, key: key.serialize_pem() })
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(|source| Error::Write { path, source })
    }
}

/// `https://10.77.0.11:6443`, with brackets around an IPv6 address.
#[must_use]
pub fn url(address: IpAddr) -> String {
    format!("https://{}", std::net::SocketAddr::new(address, 6443))
}

fn named(user: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params.distinguished_name.push(DnType::CommonName, user);
    params
}

fn base64(name: &str, text: &str) -> Result<String, Error> {
    let bytes = ByteString(text.as_bytes().to_vec());
    let encoded = serde_json::to_string(&bytes).map_err(|source| Error::Encode { name: name.to_owned(), source })?;
    Ok(encoded.trim_matches('"').to_owned())
}
