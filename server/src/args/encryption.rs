//! Flags of encryption at rest, with kube-apiserver's names and meanings.

use super::{STORAGE, UsageError};
use clap::{ArgAction, Args};
use std::path::PathBuf;

const CONFIG: &str = "--encryption-provider-config";
const RELOAD: &str = "--encryption-provider-config-automatic-reload";

#[derive(Debug, Args)]
pub(super) struct EncryptionArgs {
    /// Encrypt stored objects as the EncryptionConfiguration (apiserver.config.k8s.io/v1) in FILE says
    #[arg(long, value_name = "FILE", help_heading = STORAGE)]
    encryption_provider_config: Option<PathBuf>,
    /// Read --encryption-provider-config again when it has changed, within a minute
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = STORAGE)]
    encryption_provider_config_automatic_reload: Option<bool>,
}

/// The encryption configuration of the apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionFile {
    /// Path of the configuration.
    pub path: PathBuf,
    /// Whether the file is read again when it has changed.
    pub reloads: bool,
}

impl EncryptionArgs {
    /// The configuration, if the flags name one.
    pub(super) fn into_file(self) -> Result<Option<EncryptionFile>, UsageError> {
        encryption_file(self.encryption_provider_config, self.encryption_provider_config_automatic_reload)
    }
}

/// The configuration that the flags' values name, if they name one.
pub(crate) fn encryption_file(
    path: Option<PathBuf>,
    reloads: Option<bool>,
) -> Result<Option<EncryptionFile>, UsageError> {
    match (path, reloads.unwrap_or(false)) {
        (Some(path), reloads) => Ok(Some(EncryptionFile { path, reloads })),
        (None, true) => Err(UsageError::NeedsFlag(RELOAD, CONFIG)),
        (None, false) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::Parser as _;

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
        assert_eq!(file(&format!("{CONFIG}=f {RELOAD}")), some(true));
        assert_eq!(file(&format!("{CONFIG}=f {RELOAD}=false")), some(false));
        assert_eq!(file(RELOAD).unwrap_err(), format!("{RELOAD} needs {CONFIG}"));
        let store = format!("--components store --etcd-listen 127.0.0.1:0 {CONFIG}=f");
        assert_eq!(file(&store).unwrap_err(), format!("{CONFIG} requires `apiserver` in --components"));
        let loops = format!("--components scheduler --kubeconfig k {CONFIG}=f");
        assert_eq!(file(&loops).unwrap_err(), format!("{CONFIG} requires `apiserver` in --components"));
    }
}
