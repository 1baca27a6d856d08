//! [`Kubeconfig`]: where the server is and how to prove who we are, from the file that kubectl uses too. Only certificates
//! and tokens are read; plugins that run programs are not.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

use crate::limits::MAX_KUBECONFIG;

/// What a connection needs to know: one context of a kubeconfig file.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// `https://host:port`.
    pub server: String,
    /// Certificates, as PEM, that the server's certificate must be signed by.
    pub ca: Option<Vec<u8>>,
    /// The name to expect in the server's certificate, if it is not the host's.
    pub tls_server_name: Option<String>,
    /// Whether to take any certificate of the server.
    pub insecure: bool,
    /// Our certificate chain and key, as PEM.
    pub identity: Option<Identity>,
    /// A bearer token.
    pub token: Option<String>,
    /// The namespace of the context, or `default`.
    pub namespace: String,
}

/// A client certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The chain, as PEM.
    pub certificate: Vec<u8>,
    /// The key, as PEM.
    pub key: Vec<u8>,
}

/// Why a kubeconfig cannot be used. Someone has to change the file.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// A file that cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// A file longer than [`MAX_KUBECONFIG`].
    #[error("{0}: too long for a kubeconfig")]
    TooLong(PathBuf),
    /// No YAML, or not of the right form.
    #[error("not a kubeconfig: {0}")]
    Format(#[from] serde_yaml_ng::Error),
    /// Data that should be base64.
    #[error("{field} is not base64")]
    Base64 {
        /// Which.
        field: &'static str,
    },
    /// A name that nothing in the file has.
    #[error("there is no {kind} named {name:?}")]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A way to prove identity that is not supported.
    #[error("the user's {0} is not supported; use a client certificate or a token")]
    Unsupported(&'static str),
}

impl Kubeconfig {
    /// Reads the current context of a file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// Says what is wrong with which part of the file.
    pub fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let text = read(path)?;
        Self::parse(&String::from_utf8_lossy(&text), path.parent().unwrap_or(Path::new("")))
    }

    /// The current context of a kubeconfig's text. Relative paths in it start at `folder`.
    ///
    /// # Errors
    /// Says what is wrong with which part of the text.
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
        })
    }
}

/// Shows no secret.
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

/// What stands in the file itself counts before the file it names.
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
