//! The configuration of EventRateLimit: `Configuration` of `eventratelimit.admission.k8s.io/v1alpha1`. Pure.

use super::LimitType;
use super::buckets::Rate;
use crate::plugin::read_document;
use kstore_storage::limits::EVENT_LIMIT_KEYS;
use serde::Deserialize;
use serde_json::Value;

const VERSIONS: &[&str] = &["eventratelimit.admission.k8s.io/v1alpha1"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default)]
    limits: Vec<LimitEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LimitEntry {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    qps: i32,
    #[serde(default)]
    burst: i32,
    #[serde(default)]
    cache_size: i32,
}

/// A limit of a configuration.
pub(super) struct LimitConfig {
    pub(super) kind: LimitType,
    pub(super) rate: Rate,
    /// The largest number of keys that have buckets of their own.
    pub(super) keys: usize,
}

/// The limits of a configuration.
pub(super) fn limits(document: Value) -> Result<Vec<LimitConfig>, String> {
    let Configuration { limits } = read_document(document, VERSIONS, "Configuration")?;
    if limits.is_empty() {
        return Err("limits: must not be empty".to_owned());
    }
    let limits = limits.into_iter().enumerate();
    limits.map(|(index, entry)| limit(entry).map_err(|why| format!("limits[{index}].{why}"))).collect()
}

fn limit(entry: LimitEntry) -> Result<LimitConfig, String> {
    const TYPES: [LimitType; 4] =
        [LimitType::Server, LimitType::Namespace, LimitType::User, LimitType::SourceAndObject];
    let kind = TYPES.into_iter().find(|kind| kind.name() == entry.kind);
    let kind = kind.ok_or_else(|| {
        format!("type: {:?} is not one of Server, Namespace, User, SourceAndObject", entry.kind)
    })?;
    if entry.burst <= 0 {
        return Err(format!("burst: must be positive, found {}", entry.burst));
    }
    if entry.qps <= 0 {
        return Err(format!("qps: must be positive, found {}", entry.qps));
    }
    let keys = match usize::try_from(entry.cache_size) {
        _ if kind == LimitType::Server => 1,
        Ok(0) => EVENT_LIMIT_KEYS,
        Ok(keys) => keys,
        Err(_) => return Err(format!("cacheSize: must not be negative, found {}", entry.cache_size)),
    };
    let rate = Rate { per_second: entry.qps.into(), burst: entry.burst.into() };
    Ok(LimitConfig { kind, rate, keys })
}
