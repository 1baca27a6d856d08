//! [`Kubeconfig`]: server and credentials from the file that kubectl uses. Supports client certificates and
//! tokens, but not exec plugins.

#[cfg(test)]
mod tests;

use crate::limits::MAX_KUBECONFIG;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// One context of a kubeconfig file: everything that a connection needs.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The server's URL, `https://host:port`.
    pub server: String,
    /// The certificate authority's certificates in PEM, which must have signed the server's certificate.
    pub ca: Option<Vec<u8>>,
    /// The name in the server's certificate, if it differs from the host.
    pub tls_server_name: Option<String>,
    /// Whether to accept any server certificate.
    pub insecure: bool,
    /// The client certificate and key.
    pub identity: Option<Identity>,
    /// A bearer token.
    pub token: Option<String>,
    /// The namespace of the context, or `default`.
    pub namespace: String,
    /// The name of the cluster in the file.
    pub cluster: String,
}

/// A client certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate chain in PEM.
    pub certificate: Vec<u8>,
    /// The key in PEM.
    pub key: Vec<u8>,
}

/// The defect of a kubeconfig; the user has to fix the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// An unreadable file.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A file longer than [`MAX_KUBECONFIG`].
    #[error("{0}: too large for a kubeconfig")]
    TooLong(PathBuf),
    /// The text is not YAML or lacks a required field.
    #[error("invalid kubeconfig: {0}")]
    Format(#[from] serde_yaml_ng::Error),
    /// A field is not base64.
    #[error("{field} is not base64")]
    Base64 {
        /// The field.
        field: &'static str,
    },
    /// The file has no entry with this name.
    #[error("{kind} {name:?} does not exist")]
    Missing {
        /// The kind: `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// An unsupported way of authentication.
    #[error("the user's {0} is not supported: use a client certificate or a token")]
    Unsupported(&'static str),
}

impl Kubeconfig {
    /// Reads the current context of a file. Relative paths in the file start at its folder.
    ///
    /// # Errors
    ///
    /// The defect and the part of the file.
    pub fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let text = read(path)?;
        Self::parse(&String::from_utf8_lossy(&text), path.parent().unwrap_or(Path::new("")))
    }

    /// Reads the current context of a kubeconfig's text. Relative paths in it start at `folder`.
    ///
    /// # Errors
    ///
    /// The defect and the part of the text.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, KubeconfigError> {
        let file: File = serde_yaml_ng::from_str(text)?;
        let context = find(file.contexts, "context", &file.current_context)?.context;
        let cluster = find(file.clusters, "cluster", &context.cluster)?.cluster;
        let user = match context.user.as_str() {
            "" => User::default(),
            name => find(file.users, "user", name)?.user,
        };
        let (certificate, key, token) = user.credentials(folder)?;
        let identity = certificate.zip(key).map(|(certificate, key)| Identity { certificate, key });
        let namespace = match context.namespace.as_str() {
            "" => "default".to_owned(),
            _ => context.namespace,
        };
        Ok(Self {
            ca: data(
                "certificate-authority-data",
                cluster.certificate_authority_data.as_deref(),
                cluster.certificate_authority.as_deref(),
                folder,
            )?,
            server: cluster.server,
            tls_server_name: cluster.tls_server_name,
            insecure: cluster.insecure_skip_tls_verify,
            identity,
            token,
            namespace,
            cluster: context.cluster,
        })
    }
}

/// The output contains no secrets.
impl std::fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .field("identity", &self.identity.is_some())
            .field("token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    tls_server_name: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    exec: Option<serde_yaml_ng::Value>,
    auth_provider: Option<serde_yaml_ng::Value>,
    username: Option<String>,
}

type Credentials = (Option<Vec<u8>>, Option<Vec<u8>>, Option<String>);

impl User {
    fn credentials(self, folder: &Path) -> Result<Credentials, KubeconfigError> {
        let unsupported = [
            ("exec plugin", self.exec.is_some()),
            ("auth provider", self.auth_provider.is_some()),
            ("password", self.username.is_some()),
        ];
        if let Some((what, _)) = unsupported.iter().find(|(_, used)| *used) {
            return Err(KubeconfigError::Unsupported(what));
        }
        let certificate = data(
            "client-certificate-data",
            self.client_certificate_data.as_deref(),
            self.client_certificate.as_deref(),
            folder,
        )?;
        let key =
            data("client-key-data", self.client_key_data.as_deref(), self.client_key.as_deref(), folder)?;
        let token = match (self.token, self.token_file) {
            (Some(token), _) => Some(token),
            (None, Some(path)) => Some(String::from_utf8_lossy(&read(&folder.join(path))?).trim().to_owned()),
            (None, None) => None,
        };
        Ok((certificate, key, token))
    }
}

trait Named {
    fn name(&self) -> &str;
}

impl Named for NamedContext {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for NamedCluster {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for NamedUser {
    fn name(&self) -> &str {
        &self.name
    }
}

fn find<T: Named>(all: Vec<T>, kind: &'static str, name: &str) -> Result<T, KubeconfigError> {
    let missing = || KubeconfigError::Missing { kind, name: name.to_owned() };
    all.into_iter().find(|one| one.name() == name).ok_or_else(missing)
}

/// The inline data, or else the content of the file that the kubeconfig names.
fn data(
    field: &'static str,
    inline: Option<&str>,
    path: Option<&Path>,
    folder: &Path,
) -> Result<Option<Vec<u8>>, KubeconfigError> {
    match (inline, path) {
        (Some(text), _) if !text.is_empty() => {
            let compact: String = text.split_whitespace().collect();
            BASE64_STANDARD.decode(compact).map(Some).map_err(|_| KubeconfigError::Base64 { field })
        }
        (_, Some(path)) => read(&folder.join(path)).map(Some),
        (_, None) => Ok(None),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    let failed = |source| KubeconfigError::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > MAX_KUBECONFIG {
        return Err(KubeconfigError::TooLong(path.to_owned()));
    }
    std::fs::read(path).map_err(failed)
}
