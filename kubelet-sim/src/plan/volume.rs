//! Volumes that show objects of the API: their files with permissions.

use super::user;
use k8s_openapi::api::core::v1::{KeyToPath, PodSpec, Volume};
use kstore_container_sim::{Content, DiskEntry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of a ConfigMap or Secret.
pub type Values = BTreeMap<String, Arc<[u8]>>;

/// The mode of files without one of their own.
const FILE_MODE: i32 = 0o644;

/// The files of a volume by path, and their permissions.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The files.
    pub all: BTreeMap<String, DiskEntry>,
    mode: i32,
    group: Option<u32>,
    /// The user that tokens and certificates belong to.
    user: Option<u32>,
}

impl Files {
    /// No files yet of a volume of this pod.
    pub fn of(spec: &PodSpec, volume: &Volume) -> Self {
        let modes = [
            volume.config_map.as_ref().and_then(|source| source.default_mode),
            volume.secret.as_ref().and_then(|source| source.default_mode),
            volume.downward_api.as_ref().and_then(|source| source.default_mode),
            volume.projected.as_ref().and_then(|source| source.default_mode),
        ];
        let mode = modes.into_iter().flatten().next().unwrap_or(FILE_MODE);
        Self { all: BTreeMap::new(), mode, group: user::volume_group(spec), user: user::of_all(spec) }
    }

    /// Adds a file; `mode` is its own, if it has one.
    pub fn add(&mut self, path: &str, bytes: &Arc<[u8]>, mode: Option<i32>) {
        let mode = u32::try_from(mode.unwrap_or(self.mode)).unwrap_or(0) & 0o777;
        // A group may read what is read-only.
        let mode = if self.group.is_some() { mode | 0o440 } else { mode };
        let entry = DiskEntry::new(Content::File(Arc::clone(bytes)), mode, 0);
        self.all.insert(path.to_owned(), DiskEntry { group: self.group.unwrap_or(0), ..entry });
    }

    /// Adds a token of the service account, or a key or certificate of the pod: only the user of the pod, or the group of its volumes,
    /// may read it where there is one.
    pub fn add_credential(&mut self, path: &str, credential: &str) {
        let is_owned = self.user.is_some() || self.group.is_some();
        self.add(path, &Arc::from(credential.as_bytes()), is_owned.then_some(0o600));
        if let (Some(entry), Some(user)) = (self.all.get_mut(path), self.user) {
            entry.user = user;
        }
    }

    /// Adds the values that `items` select, under the paths of the items; all values if there are no items.
    pub fn add_values(&mut self, values: &Values, items: Option<&[KeyToPath]>) {
        match items {
            None | Some([]) => values.iter().for_each(|(name, value)| self.add(name, value, None)),
            Some(items) => {
                for item in items {
                    if let Some(value) = values.get(&item.key) {
                        self.add(&item.path, value, item.mode);
                    }
                }
            }
        }
    }

    /// Bytes of the values, each once: several paths may share those of one value.
    pub fn bytes(&self) -> usize {
        let values = self.all.values().filter_map(|entry| match &entry.content {
            Content::File(bytes) => Some((bytes.as_ptr() as usize, bytes.len())),
            Content::Folder | Content::Link(_) => None,
        });
        values.collect::<BTreeMap<_, _>>().values().sum()
    }
}

/// The root of a volume that programs write to: everyone may, and new files have the group of the pod's volumes.
pub fn written_root(spec: &PodSpec, now: i64) -> DiskEntry {
    let group = user::volume_group(spec);
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    DiskEntry { mode, group: group.unwrap_or(0), ..DiskEntry::folder(now) }
}

/// The root of a volume that shows objects.
pub fn shown_root(spec: &PodSpec, now: i64) -> DiskEntry {
    written_root(spec, now)
}

/// Whether a volume stores what programs write. The others show objects of the API and are read-only.
pub fn is_written(volume: &Volume) -> bool {
    let shown = [
        volume.config_map.is_some(),
        volume.secret.is_some(),
        volume.downward_api.is_some(),
        volume.projected.is_some(),
    ];
    !shown.contains(&true)
}

/// Whether the files of a volume are in memory.
pub fn is_memory(volume: &Volume) -> bool {
    let medium = volume.empty_dir.as_ref().and_then(|source| source.medium.as_deref());
    medium == Some("Memory") || volume.secret.is_some() || holds_token(volume)
}

/// Whether a volume holds a token of the pod's service account.
pub fn holds_token(volume: &Volume) -> bool {
    let mut sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    sources.any(|source| source.service_account_token.is_some())
}

/// Whether a volume shows fields of its pod.
pub fn shows_pod(volume: &Volume) -> bool {
    let mut sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    volume.downward_api.is_some() || sources.any(|source| source.downward_api.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pod: &str, volume: &str) -> Files {
        let text = format!("{{containers: [{{name: c}}], {pod}}}");
        let volume = serde_yaml_ng::from_str(&format!("{{name: v, {volume}}}")).unwrap();
        Files::of(&serde_yaml_ng::from_str(&text).unwrap(), &volume)
    }

    #[test]
    fn files_have_their_own_mode_or_that_of_the_volume() {
        let values: Values =
            [("a", "1"), ("b", "2")].map(|(key, text)| (key.to_owned(), text.as_bytes().into())).into();
        let item =
            |key: &str, path: &str, mode| KeyToPath { key: key.to_owned(), path: path.to_owned(), mode };
        let modes = |files: &Files| -> Vec<(String, u32, u32)> {
            files.all.iter().map(|(path, entry)| (path.clone(), entry.mode, entry.group)).collect()
        };
        let mut plain = files("", "configMap: {name: x}");
        plain.add_values(&values, None);
        assert_eq!(modes(&plain), [("a".to_owned(), 0o644, 0), ("b".to_owned(), 0o644, 0)]);
        let mut own = files("securityContext: {fsGroup: 7}", "secret: {secretName: x, defaultMode: 256}");
        own.add_values(
            &values,
            Some(&[item("a", "p/q", None), item("b", "r", Some(0o444)), item("c", "s", None)]),
        );
        assert_eq!(modes(&own), [("p/q".to_owned(), 0o440, 7), ("r".to_owned(), 0o444, 7)]);
    }

    #[test]
    fn a_token_is_for_the_user_of_all_containers_or_the_group_of_the_volumes() {
        let token = |pod: &str| {
            let mut files = files(pod, "projected: {sources: []}");
            files.add_credential("t", "x");
            let DiskEntry { mode, user, group, .. } = files.all["t"].clone();
            (mode, user, group)
        };
        assert_eq!(token("securityContext: {}"), (0o644, 0, 0));
        assert_eq!(token("securityContext: {runAsUser: 5}"), (0o600, 5, 0));
        assert_eq!(token("securityContext: {fsGroup: 9}"), (0o640, 0, 9));
    }

    /// A volume may show one value of a megabyte under thousands of paths.
    #[test]
    fn paths_of_one_value_share_its_bytes() {
        let values = Values::from([("k".to_owned(), Arc::from(vec![b'x'; 1 << 20]))]);
        let item = |n: usize| KeyToPath { key: "k".to_owned(), path: format!("p{n}"), mode: None };
        let items: Vec<KeyToPath> = (0..6000).map(item).collect();
        let mut files = files("", "configMap: {name: x}");
        files.add_values(&values, Some(&items));
        assert_eq!((files.all.len(), files.bytes()), (6000, 1 << 20));
    }
}
