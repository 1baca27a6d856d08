//! Flags of encryption at rest, with kube-apiserver's names and meanings.

use super::UsageError;
use std::path::PathBuf;

pub(super) const CONFIG: &str = "encryption-provider-config";
pub(super) const RELOAD: &str = "encryption-provider-config-automatic-reload";

/// The encryption configuration of the apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionFile {
    /// Path of the configuration.
    pub path: PathBuf,
    /// Whether the file is read again when it has changed.
    pub reloads: bool,
}

/// The configuration that the flags' values name, if they name one.
pub(crate) fn encryption_file(
    path: Option<PathBuf>,
    reloads: Option<bool>,
) -> Result<Option<EncryptionFile>, UsageError> {
    match (path, reloads.unwrap_or(false)) {
        (Some(path), reloads) => Ok(Some(EncryptionFile { path, reloads })),
        (None, true) => Err(UsageError::NeedsFlag(RELOAD, "--encryption-provider-config")),
        (None, false) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;

    fn file(flags: &str) -> Result<Option<EncryptionFile>, String> {
        let words = ["kstore-server"].into_iter().chain(flags.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let api = cli.serve.into_config().map_err(|error| error.to_string())?.api;
        Ok(api.here().unwrap().encryption.map(|file| *file))
    }

    #[test]
    fn the_configuration_may_be_reloaded_and_needs_an_apiserver() {
        let some = |reloads| Ok(Some(EncryptionFile { path: "f".into(), reloads }));
        assert_eq!(file(""), Ok(None));
        assert_eq!(file("--encryption-provider-config f"), some(false));
        assert_eq!(file(&format!("--{CONFIG}=f --{RELOAD}")), some(true));
        assert_eq!(file(&format!("--{CONFIG}=f --{RELOAD}=false")), some(false));
        assert_eq!(file(&format!("--{RELOAD}")).unwrap_err(), format!("--{RELOAD} needs --{CONFIG}"));
        let store = format!("--components store --etcd-listen 127.0.0.1:0 --{CONFIG}=f");
        assert_eq!(file(&store).unwrap_err(), format!("--{CONFIG} requires `apiserver` in --components"));
        let loops = format!("--components scheduler --kubeconfig k --{CONFIG}=f");
        assert_eq!(file(&loops).unwrap_err(), format!("--{CONFIG} requires `apiserver` in --components"));
    }
}
