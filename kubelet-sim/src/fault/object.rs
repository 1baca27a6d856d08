//! [`FaultRecord`]: a NodeFault in the informer's cache, and which nodes it means. Pure.

use super::request::{FaultRequest, Window};
use crate::image::hash;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::time::Duration;

/// A fault.
#[derive(Debug)]
pub(crate) struct FaultRecord {
    key: Key,
    revision: Revision,
    pub(crate) object: FaultObject,
}

/// The fields of a NodeFault.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FaultObject {
    pub(crate) metadata: ProjectedMeta<IgnoredAny, IgnoredAny, IgnoredAny, Time>,
    pub(crate) spec: FaultSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FaultSpec {
    pub(crate) nodes: FaultNodes,
    pub(crate) fault: String,
    pub(crate) value: Option<String>,
    pub(crate) at: FaultTime,
    pub(crate) duration: Option<String>,
    pub(crate) every: Option<String>,
    pub(crate) jitter: Option<String>,
}

/// Which nodes have the fault: those for which all members hold.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FaultNodes {
    pub(crate) names: Vec<String>,
    pub(crate) selector: BTreeMap<String, String>,
    pub(crate) group: String,
    pub(crate) count: Option<IntOrString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FaultTime {
    pub(crate) after: Option<String>,
    pub(crate) time: Option<Time>,
}

impl FaultRecord {
    pub(crate) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let object: FaultObject = lenient::from_slice(json)?;
        Ok(Self { key: object.metadata.key(), revision: object.metadata.revision(), object })
    }

    /// The fault, and from when its times count.
    ///
    /// # Errors
    /// What is wrong with the spec.
    pub(crate) fn request(&self, now: Timestamp) -> Result<(FaultRequest, Timestamp), String> {
        let request = self.object.spec.request()?;
        let created = self.object.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        Ok((request, self.object.spec.at.time.as_ref().map_or(created, |time| time.0)))
    }

    /// What the fault means at `now`, with the shifts of its beginnings drawn by `seed`. `request` and `from` are of [`Self::request`].
    pub(crate) fn window(
        &self,
        (request, from): (&FaultRequest, Timestamp),
        seed: u64,
        now: Timestamp,
    ) -> Window {
        let range = u64::try_from(request.jitter.as_millis()).unwrap_or(u64::MAX).max(1);
        // A draw of its own, so that which nodes have the fault says nothing about when. It is the same after a restart.
        let draw = |number: u64| hash(seed, &[self.uid(), &number.to_string(), "jitter"]) % range;
        request.shifted_window(from, now, |number| Duration::from_millis(draw(number)))
    }
}

impl FaultSpec {
    /// The fault, with the time from which it counts left out.
    ///
    /// # Errors
    /// What is wrong with the spec.
    pub(crate) fn request(&self) -> Result<FaultRequest, String> {
        let Self { fault, value, at, duration, every, jitter, .. } = self;
        let mut request = FaultRequest::of_object(
            fault,
            value.as_deref(),
            duration.as_deref(),
            every.as_deref(),
            jitter.as_deref(),
        )?;
        if let Some(after) = &at.after {
            let span = crate::behavior::duration(after);
            request.after += span.map_err(|expected| format!("at.after {after:?} is not {expected}"))?;
        }
        Ok(request)
    }
}

impl FaultNodes {
    /// Whether a node may have the fault.
    pub(crate) fn matches(
        &self,
        name: &str,
        label: impl Fn(&str) -> Option<String>,
        group: Option<&str>,
    ) -> bool {
        (self.names.is_empty() || self.names.iter().any(|one| one == name))
            && (self.group.is_empty() || group == Some(&self.group))
            && self.selector.iter().all(|(key, value)| label(key).as_ref() == Some(value))
    }

    /// As many of `matching` as the fault is for, drawn by `seed`.
    pub(crate) fn draw(&self, mut matching: Vec<String>, seed: u64) -> Vec<String> {
        let all = matching.len();
        let count = match &self.count {
            None => return matching,
            Some(IntOrString::Int(count)) => usize::try_from(*count).unwrap_or(0),
            Some(IntOrString::String(text)) => match text.strip_suffix('%') {
                Some(percent) => all * percent.parse::<usize>().unwrap_or(0).min(100) / 100,
                None => text.parse().unwrap_or(0),
            },
        };
        matching.sort_by_key(|name| hash(seed, &[name]));
        matching.truncate(count);
        matching.sort();
        matching
    }
}

impl Object for FaultRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.object.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_chosen_by_name_label_and_group_and_drawn_by_seed() {
        let nodes = |value: serde_json::Value| -> FaultNodes { lenient::from_value(&value).unwrap() };
        let label = |key: &str| (key == "zone").then(|| "a".to_owned());
        assert!(nodes(json!({"names": ["n-1"]})).matches("n-1", label, None));
        assert!(!nodes(json!({"names": ["n-1"]})).matches("n-2", label, None));
        assert!(nodes(json!({"selector": {"zone": "a"}, "group": "web"})).matches("n", label, Some("web")));
        assert!(!nodes(json!({"selector": {"zone": "a"}, "group": "web"})).matches("n", label, Some("db")));
        assert!(!nodes(json!({"selector": {"rack": "a"}})).matches("n", label, None));
        let all: Vec<String> = (0..20).map(|index| format!("n-{index}")).collect();
        let drawn = |count: serde_json::Value, seed| nodes(json!({"count": count})).draw(all.clone(), seed);
        assert_eq!((drawn(json!(3), 1).len(), drawn(json!("10%"), 1).len()), (3, 2));
        assert_eq!(drawn(json!(3), 1), drawn(json!(3), 1));
        assert_ne!(drawn(json!(3), 1), drawn(json!(3), 2));
        assert_eq!(drawn(json!(50), 1).len(), 20);
    }

    #[test]
    fn jitter_of_a_fault_is_drawn_by_seed_object_and_beginning() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let begins = |uid: &str, seed: u64| -> Vec<i64> {
            let spec = json!({"nodes": {"group": "web"}, "fault": "crash", "duration": "10s", "every": "1h", "jitter": "30m"});
            let metadata = json!({
                "name": "f", "uid": uid, "resourceVersion": "1", "creationTimestamp": "1970-01-01T01:00:00Z",
            });
            let json = json!({"metadata": metadata, "spec": spec}).to_string();
            let record = FaultRecord::decode(json.as_bytes()).unwrap();
            let (request, from) = record.request(at(0)).unwrap();
            assert_eq!(from, at(3600));
            let window = |round: i64| record.window((&request, from), seed, at((round + 1) * 3600 - 1));
            // A second before the time of each beginning without jitter: the next change is that beginning.
            (0..8)
                .map(|round| window(round).next.unwrap().as_millisecond() - (round + 1) * 3_600_000)
                .collect()
        };
        let one = begins("a", 1);
        assert!(one.iter().all(|shift| (0..1_800_000).contains(shift)), "{one:?}");
        assert!(one.iter().any(|shift| *shift != one[0]), "each beginning has its own: {one:?}");
        assert_eq!(one, begins("a", 1));
        assert_ne!(one, begins("a", 2));
        assert_ne!(one, begins("b", 1));
    }
}
