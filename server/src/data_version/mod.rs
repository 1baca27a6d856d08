//! [`DataVersion`]: the version of Kubernetes and the feature gates with which data are served. A key beside those of the objects has them
//! from the first start on, so that an older version does not read what a newer one wrote unless its operator says so: snapshots carry it,
//! and servers on one external etcd share it. A file in a data directory repeats it, for commands that do not open the store.

mod losses;

use crate::args::OptionalApis;
use crate::data_dir::VERSION_FILE;
use crate::files::write_private;
use anyhow::{Context, bail};
use kstore_api::version::{MAJOR, Minor};
use kstore_storage::storage::{Commit, CommitError, Guard, Outcome, Raw, Storage, Write};
use kstore_storage::storage_key::DATA_VERSION;
use losses::Losses;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use tracing::{info, warn};

/// Name of the line with the version, such as `kubernetes 1.34`.
const VERSION: &str = "kubernetes";
/// Name of the line with the newest version that wrote the data, if it is another one, such as `newest 1.36`.
const NEWEST: &str = "newest";
/// Name of the line with the gates, such as `feature-gates A=true,B=false`.
const GATES: &str = "feature-gates";

/// The version of Kubernetes and the feature gates with which data are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataVersion {
    /// Number of the minor version, which need not be one that this program serves.
    minor: u64,
    /// Number of the newest minor version that wrote the data.
    newest: u64,
    /// Settings of `--feature-gates`, as in the flag.
    gates: Vec<String>,
}

impl fmt::Display for DataVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MAJOR}.{}", self.minor)
    }
}

impl DataVersion {
    /// The version and the gates that flags choose.
    fn of(apis: &OptionalApis) -> Self {
        let minor = apis.opt_in.minor().number();
        Self { minor, newest: minor, gates: apis.gates.clone() }
    }

    /// The settings of feature gates.
    pub(crate) fn gates(&self) -> &[String] {
        &self.gates
    }

    /// The version, and the settings of gates if there are any.
    pub(crate) fn described(&self) -> String {
        match self.gates.is_empty() {
            true => self.to_string(),
            false => format!("{self} with {}", self.gates.join(", ")),
        }
    }

    /// What the record of a storage says.
    fn of_record(record: &Raw) -> anyhow::Result<Self> {
        let parsed = std::str::from_utf8(&record.value).ok().and_then(Self::parse);
        parsed.with_context(|| {
            format!(
                "the key {DATA_VERSION} names no version of Kubernetes: store the version that the data were served with, such as \
                 `{VERSION} {}`, or delete the key",
                Minor::DEFAULT
            )
        })
    }

    /// What the file of a data directory says; `None` if nothing was ever served from it, or only by a program that did not record its
    /// version.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = dir.join(VERSION_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => match Self::parse(&text) {
                Some(version) => Ok(Some(version)),
                None => bail!(
                    "{} names no version of Kubernetes: write the version that this data directory was served with, \
                     such as `{VERSION} {}`, or remove the file",
                    path.display(),
                    Minor::DEFAULT
                ),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// What a file says; `None` if it is damaged. Lines with other names are of a newer program, and are ignored.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.split_once(' ').filter(|(own, _)| *own == name))
                .map(|(_, value)| value)
        };
        let number = |text: &str| {
            let (major, minor) = text.split_once('.')?;
            minor.parse::<u64>().ok().filter(|_| major.parse() == Ok(MAJOR))
        };
        let minor = number(value(VERSION)?)?;
        let newest = value(NEWEST).map_or(Some(minor), number)?;
        let gates = value(GATES).unwrap_or_default().split(',').filter(|gate| !gate.is_empty());
        Some(Self { minor, newest, gates: gates.map(str::to_owned).collect() })
    }

    fn text(&self) -> String {
        let gates = match self.gates.is_empty() {
            true => String::new(),
            false => format!("{GATES} {}\n", self.gates.join(",")),
        };
        let newest = match self.newest == self.minor {
            true => String::new(),
            false => format!("{NEWEST} {MAJOR}.{}\n", self.newest),
        };
        format!("{VERSION} {self}\n{newest}{gates}")
    }

    /// Writes the file of a data directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join(VERSION_FILE);
        write_private(&path, self.text().as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Checks that the data of a storage may be served with the version that flags choose, and records it, also in the file of the directory
/// `dir` if there is one. Logs the objects of kinds that this version does not serve: they stay in the storage, where only the etcd API
/// shows them. Returns whether objects may have members that the version lacks. Waits while an external etcd does not answer.
///
/// # Errors
/// The data were served with a newer version, and `allows_downgrade` is not set. Or the directory or the storage cannot be read or written.
pub(crate) async fn take_over(
    dir: Option<&Path>,
    storage: &dyn Storage,
    apis: &OptionalApis,
    allows_downgrade: bool,
) -> anyhow::Result<bool> {
    let in_file = dir.map(DataVersion::read).transpose()?.flatten();
    loop {
        let record = storage.get(DATA_VERSION, 0).await?;
        let stored = record.as_ref().map(DataVersion::of_record).transpose()?;
        // Data directories of former releases have the file alone.
        let recorded = stored.as_ref().or(in_file.as_ref());
        let served = judge(storage, recorded, apis, allows_downgrade).await?;
        if stored.as_ref() != Some(&served) {
            let revision = record.map_or(0, |record| record.revision);
            // Another server on the same etcd may have started meanwhile.
            if !commit(storage, &served, revision).await? {
                continue;
            }
        }
        for (kind, objects) in losses::unserved(storage, &apis.opt_in).await? {
            warn!(kind, objects, "objects of a kind that is not served stay in the store");
        }
        if let Some(dir) = dir.filter(|_| in_file.as_ref() != Some(&served)) {
            served.write(dir)?;
        }
        return Ok(served.newest > served.minor);
    }
}

/// Stores the record if it is still of this revision (0: there is none). Returns whether it was. A storage without space for it is served
/// all the same: its objects can be read and deleted.
async fn commit(storage: &dyn Storage, served: &DataVersion, revision: i64) -> anyhow::Result<bool> {
    let key = DATA_VERSION.to_owned();
    let put = Write::Put { key: key.clone(), value: served.text().into(), ttl_seconds: 0 };
    let commit = Commit { guards: vec![Guard { key, revision }], writes: vec![put], ..Commit::default() };
    match storage.commit(commit).await {
        Ok(outcome) => Ok(matches!(outcome, Outcome::Committed { .. })),
        Err(CommitError::NoSpace(reason)) => {
            warn!(reason, "the storage does not record that it is served as Kubernetes {served}");
            Ok(true)
        }
        Err(error) => Err(error).context("cannot record the version of Kubernetes"),
    }
}

/// What is to be recorded of data with this record, if they may be served.
async fn judge(
    storage: &dyn Storage,
    recorded: Option<&DataVersion>,
    apis: &OptionalApis,
    allows_downgrade: bool,
) -> anyhow::Result<DataVersion> {
    /// The revision of a storage without a commit.
    const EMPTY: i64 = 1;
    let mut served = DataVersion::of(apis);
    let newest = Minor::SERVED.map(Minor::number).into_iter().max().unwrap_or_default();
    match recorded {
        Some(recorded) if recorded.minor > served.minor => {
            let losses = Losses::count(storage, &apis.opt_in).await?;
            if !allows_downgrade {
                bail!("{}", refusal(recorded, &served, &losses));
            }
            warn!(lost = %losses, "data of Kubernetes {recorded} is served as {served}: what this version lacks is not shown, and writes of an object remove it");
        }
        Some(recorded) if recorded.minor + 1 < served.minor => {
            warn!(
                "data of Kubernetes {recorded} is served as {served}: Kubernetes supports upgrades by one minor version only"
            );
        }
        None if served.minor < newest && storage.revision().await? > EMPTY => {
            let losses = Losses::count(storage, &apis.opt_in).await?;
            if !losses.is_empty() {
                warn!(lost = %losses, "the data do not say with which version of Kubernetes they were served: it is {served} from now on");
            }
            served.newest = if losses.has_members() { newest } else { served.minor };
        }
        Some(_) | None => {}
    }
    if let Some(recorded) = recorded {
        served.newest = served.newest.max(recorded.newest);
        if recorded.gates != served.gates {
            let (before, after) = (recorded.gates.join(","), served.gates.join(","));
            info!(before, after, "feature gates differ from those of the last start");
        }
    }
    Ok(served)
}

/// The refusal of data of a newer version.
fn refusal(recorded: &DataVersion, served: &DataVersion, losses: &Losses) -> String {
    format!(
        "data of Kubernetes {recorded} is not served as {served}: kinds and fields would be lost; --allow-downgrade overrides \
         ({losses})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind::OptIn;
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_store::{Config, Store};

    /// A storage in memory, and its store.
    async fn opened() -> (Embedded, Store) {
        let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
        (Embedded::new(store.clone()), store)
    }

    fn apis(minor: Minor, gates: &[&str]) -> OptionalApis {
        let gates = gates.iter().map(|gate| (*gate).to_owned()).collect();
        OptionalApis { opt_in: OptIn::version(minor), gates, ..OptionalApis::default() }
    }

    #[test]
    fn the_file_has_version_and_gates_and_nothing_else_is_taken_for_it() {
        let gates = vec!["EnvFiles=true".into(), "kube:B=false".into()];
        let version = DataVersion { minor: 34, newest: 36, gates };
        let text = "kubernetes 1.34\nnewest 1.36\nfeature-gates EnvFiles=true,kube:B=false\n";
        assert_eq!(version.text(), text);
        assert_eq!(DataVersion::parse(&version.text()), Some(version));
        let newer = DataVersion { minor: 99, newest: 99, gates: Vec::new() };
        assert_eq!(newer.text(), "kubernetes 1.99\n");
        assert_eq!(DataVersion::parse("later x\nkubernetes 1.99\n"), Some(newer));
        for text in [
            "",
            "kubernetes\n",
            "kubernetes 1.x\n",
            "kubernetes 2.34\n",
            "kubernetes 134\n",
            "kubernetes 1.34\nnewest x\n",
        ] {
            assert_eq!(DataVersion::parse(text), None, "{text:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DataVersion::read(dir.path()).unwrap(), None);
        fs::write(dir.path().join(VERSION_FILE), "1.34").unwrap();
        let refused = DataVersion::read(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("names no version of Kubernetes"), "{refused}");
    }

    #[tokio::test]
    async fn an_older_version_is_refused_unless_its_operator_allows_it() {
        let (storage, store) = opened().await;
        let dir = tempfile::tempdir().unwrap();
        let serve =
            async |minor, allows| take_over(Some(dir.path()), &storage, &apis(minor, &[]), allows).await;
        let recorded = || DataVersion::read(dir.path()).unwrap().unwrap().to_string();
        assert!(!serve(Minor::V33, false).await.unwrap());
        assert_eq!(recorded(), "1.33");
        assert!(!serve(Minor::V36, false).await.unwrap(), "it has all members of older versions");
        assert_eq!(recorded(), "1.36", "an upgrade by more than one version only warns");
        let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"schedulingGroup":{}}}"#;
        store.put("/registry/pods/default/a", pod).await.unwrap();
        let refused = serve(Minor::V35, false).await.unwrap_err().to_string();
        assert_eq!(
            refused,
            "data of Kubernetes 1.36 is not served as 1.35: kinds and fields would be lost; --allow-downgrade overrides \
             (spec.schedulingGroup of 1 pods)"
        );
        assert_eq!(recorded(), "1.36");
        assert!(serve(Minor::V35, true).await.unwrap(), "the pod has a member that the version lacks");
        assert_eq!(recorded(), "1.35");
        assert!(serve(Minor::V35, false).await.unwrap(), "it still has it");
        assert!(!serve(Minor::V36, false).await.unwrap());
        assert!(serve(Minor::V35, true).await.unwrap());
        store.put(DATA_VERSION, "kubernetes 1.99\n").await.unwrap();
        let refused = serve(Minor::DEFAULT, false).await.unwrap_err().to_string();
        assert!(refused.contains("1.99 is not served as"), "{refused}");
        store.put(DATA_VERSION, "1.34").await.unwrap();
        let refused = serve(Minor::DEFAULT, false).await.unwrap_err().to_string();
        assert!(refused.contains("the key /registry-kstore/version names no version"), "{refused}");
    }

    #[tokio::test]
    async fn the_record_is_that_of_the_storage_and_a_file_stands_in_for_it() {
        let (storage, store) = opened().await;
        assert!(!take_over(None, &storage, &apis(Minor::V36, &[]), false).await.unwrap());
        let kept = store.revision();
        assert!(!take_over(None, &storage, &apis(Minor::V36, &[]), false).await.unwrap());
        assert_eq!(store.revision(), kept, "an unchanged record is not written again");
        let refused = take_over(None, &storage, &apis(Minor::V35, &[]), false).await.unwrap_err().to_string();
        assert!(refused.contains("data of Kubernetes 1.36 is not served as 1.35"), "{refused}");

        // A directory into which the snapshot of such a store was restored, and one of a former release.
        let dir = tempfile::tempdir().unwrap();
        let restored = take_over(Some(dir.path()), &storage, &apis(Minor::V35, &[]), false).await;
        assert!(restored.unwrap_err().to_string().contains("not served as 1.35"));
        let (former, _) = opened().await;
        DataVersion { minor: 37, newest: 37, gates: Vec::new() }.write(dir.path()).unwrap();
        let refused = take_over(Some(dir.path()), &former, &apis(Minor::V36, &[]), false).await;
        assert!(refused.unwrap_err().to_string().contains("data of Kubernetes 1.37 is not served as 1.36"));
    }

    #[tokio::test]
    async fn of_two_servers_that_start_at_once_the_second_is_judged_by_the_first() {
        let (storage, _) = opened().await;
        assert!(
            commit(&storage, &DataVersion { minor: 37, newest: 37, gates: Vec::new() }, 0).await.unwrap()
        );
        let older = DataVersion { minor: 36, newest: 36, gates: Vec::new() };
        assert!(!commit(&storage, &older, 0).await.unwrap(), "there was no record when it was judged");
    }

    #[tokio::test]
    async fn gates_are_recorded_and_data_without_a_record_get_one() {
        let (storage, store) = opened().await;
        store.put("/registry/pods/default/a", "{}").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let serve = async |gates: &[&str]| {
            take_over(Some(dir.path()), &storage, &apis(Minor::V34, gates), false).await.unwrap()
        };
        assert!(!serve(&["EnvFiles=false"]).await, "no object has a member that the version lacks");
        let version = DataVersion::read(dir.path()).unwrap().unwrap();
        assert_eq!((version.minor, version.gates()), (34, &["EnvFiles=false".to_owned()][..]));
        serve(&[]).await;
        assert!(DataVersion::read(dir.path()).unwrap().unwrap().gates().is_empty());
        fs::remove_file(dir.path().join(VERSION_FILE)).unwrap();
        store.delete(DATA_VERSION).await.unwrap();
        store.put("/registry/pods/default/a", r#"{"spec":{"schedulingGroup":{}}}"#).await.unwrap();
        assert!(serve(&[]).await);
    }
}
