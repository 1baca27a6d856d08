//! Tags: names of revisions, which expressions take. They are the members of a ConfigMap, so that they are read and written with the
//! permissions of ConfigMaps, on every storage, and have a history of their own.

use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_registry::cache::Cache;
use serde_json::Value;
use std::collections::BTreeMap;

/// Namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
pub const NAME: &str = "kstore-tags";
/// Most tags: each is named where an unknown one is refused.
pub const MOST: usize = 1_024;

/// The tags in the ConfigMap, with their revisions. Members that are no revisions are none.
pub fn of(object: &Value) -> BTreeMap<String, i64> {
    let members = object["data"].as_object().into_iter().flatten();
    let revision = |value: &Value| value.as_str()?.parse::<i64>().ok().filter(|revision| *revision > 0);
    members.filter_map(|(name, value)| Some((name.clone(), revision(value)?))).take(MOST).collect()
}

/// The storage key of the ConfigMap.
pub fn storage_key() -> String {
    maps().storage_key(NAMESPACE, NAME)
}

/// The tags of a server.
pub(crate) fn in_cache(cache: &Cache) -> BTreeMap<String, i64> {
    let entry = cache.get(maps(), &storage_key());
    entry.map(|entry| of(&entry.parse())).unwrap_or_default()
}

fn maps() -> &'static Resource {
    kind::lookup("", "v1", "configmaps").expect("ConfigMaps are built in")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_are_the_members_that_are_revisions() {
        let map = json!({"data": {"before": "12", "broken": "x", "zero": "0", "after": "300"}});
        let tags: Vec<_> = of(&map).into_iter().collect();
        assert_eq!(tags, [("after".to_owned(), 300), ("before".to_owned(), 12)]);
        assert!(of(&json!({})).is_empty());
        assert_eq!(storage_key(), "/registry/configmaps/kube-system/kstore-tags");
    }
}
