//! The kubeconfig that commands use: by flag, by environment, or of the default data directory.

use crate::args::DEFAULT_DATA_DIR;
use anyhow::bail;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Path of the kubeconfig: the flag, else the first existing file of KUBECONFIG, else, if that is not set, the admin
/// kubeconfig of ./kstore-data.
pub(crate) fn kubeconfig_path(flag: Option<PathBuf>, variable: Option<OsString>) -> anyhow::Result<PathBuf> {
    if let Some(path) = flag {
        return Ok(path);
    }
    let names = variable.as_ref().is_some_and(|list| !list.is_empty());
    let listed = variable.as_ref().and_then(|list| std::env::split_paths(list).find(|path| path.exists()));
    let local = Path::new(DEFAULT_DATA_DIR).join("admin.kubeconfig");
    match listed {
        Some(path) => Ok(path),
        None if names => {
            let list = variable.unwrap_or_default();
            bail!("KUBECONFIG names {}, which does not exist", list.to_string_lossy())
        }
        None if local.exists() => Ok(local),
        None => bail!("which server? Set KUBECONFIG or give --kubeconfig FILE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_flag_takes_precedence_over_the_environment() {
        let flag = kubeconfig_path(Some("f".into()), Some("g".into())).unwrap();
        assert_eq!(flag, Path::new("f"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        std::fs::write(&file, "").unwrap();
        let list = std::env::join_paths([Path::new("/does/not/exist"), &file]).unwrap();
        assert_eq!(kubeconfig_path(None, Some(list)).unwrap(), file);
        let refused = kubeconfig_path(None, Some("/no/such".into())).unwrap_err().to_string();
        assert_eq!(refused, "KUBECONFIG names /no/such, which does not exist");
    }
}
