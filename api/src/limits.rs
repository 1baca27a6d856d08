//! The bounds of objects, by name, with their reason. Bounds of requests and queues belong to other crates.

/// Bytes of a DNS-1123 subdomain: RFC 1123 bounds a host name.
pub const SUBDOMAIN_MAX: usize = 253;
/// Bytes of a DNS label: RFC 1035.
pub const LABEL_MAX: usize = 63;
/// Bytes of a label value: one DNS label, so that values can become host names.
pub const LABEL_VALUE_MAX: usize = 63;
/// Bytes of all annotation keys and values of one object: keeps lists of objects transportable.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;
/// Bytes of all values of one Secret or ConfigMap: the store's request bound (etcd's 1.5 MiB) minus room for metadata.
pub const DATA_MAX: usize = 1024 * 1024;
/// Bytes of a generated name before its random suffix: a label minus the suffix.
pub const GENERATED_BASE_MAX: usize = LABEL_MAX - GENERATED_SUFFIX;
/// Characters of the random suffix of a generated name.
pub const GENERATED_SUFFIX: usize = 5;
/// Bytes of a CronJob name: its jobs append 11 characters and must still be labels.
pub const CRON_JOB_NAME_MAX: usize = 52;
/// Addresses of one endpoint in a slice.
pub const ENDPOINT_ADDRESSES_MAX: usize = 100;
/// Endpoints of one slice: bounds the size of one watch event.
pub const SLICE_ENDPOINTS_MAX: usize = 1000;
/// Ports of one slice.
pub const SLICE_PORTS_MAX: usize = 100;
/// Priority a user's class may have at most; above it are the system's.
pub const USER_PRIORITY_MAX: i64 = 1_000_000_000;
