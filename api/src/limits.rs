//! The bounds of objects, by name, with their reason. Bounds of requests and queues belong to other crates.

/// Values that one YAML document may unfold into: aliases name a value again, so bytes alone do not bound memory.
pub const YAML_VALUES: usize = 500_000;
/// How deep the maps and lists of one YAML document may nest: as deep as those of a JSON body.
pub const YAML_DEPTH: usize = 128;
/// Repeated keys of one YAML document that are named; more of them fit into no answer.
pub const YAML_REPEATED_KEYS: usize = 20;
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
/// Bytes of the difference that is told with a refused change: a screen for people; the rest is cut.
pub const DIFF_MAX: usize = 16 * 1024;
/// Lines of both values together of which it is found: the time grows with the square. A pod has some hundred.
pub const DIFF_LINES_MAX: usize = 4_000;
/// Errors that are told of one object: more than people read. Beyond it no more are looked for.
pub const ERRORS_MAX: usize = 100;
/// Bytes of their texts, a first large one aside: values are told whole, and one can be as large as the object.
pub const ERROR_BYTES_MAX: usize = 256 * 1024;
/// Warnings of one object: more than fits into the headers of an answer.
pub const WARNINGS_MAX: usize = 256;
/// Blocks of a PEM text that are passed over because they are broken; each costs a search of the rest of the text.
pub const PEM_BROKEN_MAX: usize = 100;
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
pub const SLICE_PORTS_MAX: usize = 20_000;
/// Priority a user's class may have at most; above it are the system's.
pub const USER_PRIORITY_MAX: i64 = 1_000_000_000;
/// Bytes of a condition's message: a page for people.
pub const CONDITION_MESSAGE_MAX: usize = 32 * 1024;
/// Bytes of a condition's reason.
pub const CONDITION_REASON_MAX: usize = 1024;
/// Bytes of a driver's name: it becomes a label.
pub const DRIVER_NAME_MAX: usize = LABEL_MAX;
/// Bytes of the controller of an ingress class.
pub const INGRESS_CONTROLLER_MAX: usize = 250;
/// Labels of one endpoint's topology.
pub const ENDPOINT_TOPOLOGY_MAX: usize = 16;
/// Zones, or nodes, that one endpoint is meant for.
pub const ENDPOINT_HINTS_MAX: usize = 8;
/// Seconds over which a scaling policy counts: longer, and controllers would have to remember too much.
pub const SCALING_PERIOD_MAX: i64 = 1800;
/// Seconds over which scaling is stabilized.
pub const SCALING_WINDOW_MAX: i64 = 3600;
/// Parameters of a storage class.
pub const STORAGE_PARAMETERS_MAX: usize = 512;
/// Bytes of all parameters of a storage class.
pub const STORAGE_PARAMETERS_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a node's name in the eyes of a CSI driver: the CSI specification's.
pub const CSI_NODE_ID_MAX: usize = 256;
/// Bytes of what a driver tells about an attached volume.
pub const VOLUME_METADATA_MAX: usize = 256 * 1024;
/// Bytes of the message of a failed attachment.
pub const VOLUME_ERROR_MAX: usize = 1024;
/// Place of the last flow schema.
pub const FLOW_PRECEDENCE_MAX: i64 = 10_000;
/// Queues of a priority level.
pub const LEVEL_QUEUES_MAX: i64 = 10_000_000;
/// Bits of a flow's hash, which must be enough to deal its queues from.
pub const LEVEL_HASH_BITS_MAX: u32 = 60;
/// Seconds a certificate is asked for at least: shorter ones are over before they are everywhere.
pub const CERTIFICATE_SECONDS_MIN: i64 = 600;
/// Bytes of the texts of an event that name a reporter, an action, a reason.
pub const EVENT_WORD_MAX: usize = 128;
/// Bytes of an event's note.
pub const EVENT_NOTE_MAX: usize = 1024;
/// Priority of an API group.
pub const API_GROUP_PRIORITY_MAX: i64 = 20_000;
/// Priority of a version in its API group.
pub const API_VERSION_PRIORITY_MAX: i64 = 1000;
/// Seconds a token is asked for at least.
pub const TOKEN_SECONDS_MIN: i64 = 600;
/// Seconds a token is asked for at most.
pub const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// Match conditions of one webhook or policy: each is evaluated for every request.
pub const MATCH_CONDITIONS_MAX: usize = 64;
/// Variables of one admission policy: each is compiled knowing all before it, which takes time that grows with the square. Not a bound of
/// Kubernetes, where policies have a handful.
pub const POLICY_VARIABLES_MAX: usize = 256;
/// Kinds whose types the expressions of one policy are checked with, as in Kubernetes: each check compiles all of them.
pub const POLICY_KINDS_CHECKED_MAX: usize = 10;
/// Bytes of the warnings of type checks of one policy: they quote its expressions once for each kind, and are stored with it.
pub const POLICY_WARNING_BYTES_MAX: usize = 256 * 1024;
/// Audit annotations of one policy.
pub const AUDIT_ANNOTATIONS_MAX: usize = 20;
/// Bytes of the expression of an audit annotation.
pub const AUDIT_EXPRESSION_MAX: usize = 5 * 1024;
/// Requests of one claim, and results of its allocation.
pub const DEVICE_REQUESTS_MAX: usize = 32;
/// Alternatives of one request.
pub const DEVICE_SUBREQUESTS_MAX: usize = 8;
/// Constraints of one claim.
pub const DEVICE_CONSTRAINTS_MAX: usize = 32;
/// Settings of one claim or class.
pub const DEVICE_CONFIGS_MAX: usize = 32;
/// Selectors of one request or class.
pub const DEVICE_SELECTORS_MAX: usize = 32;
/// Bytes of a device selector.
pub const DEVICE_EXPRESSION_MAX: usize = 10 * 1024;
/// Bytes of a driver's own parameters.
pub const DEVICE_PARAMETERS_MAX: usize = 10 * 1024;
/// Bytes of the name of an attribute or capacity, without its domain.
pub const DEVICE_ID_MAX: usize = 32;
/// Conditions a device waits for before it is bound, and those that end the wait.
pub const DEVICE_BINDING_CONDITIONS_MAX: usize = 4;
/// Users of one claim.
pub const CLAIM_CONSUMERS_MAX: usize = 256;
/// Devices of one slice.
pub const SLICE_DEVICES_MAX: usize = 128;
/// Devices of one slice when some have taints, counters or lists.
pub const SLICE_DEVICES_ADVANCED_MAX: usize = 64;
/// Sets of counters of one slice.
pub const COUNTER_SETS_MAX: usize = 8;
/// Counters of one set or consumption.
pub const COUNTERS_MAX: usize = 32;
/// Sets of counters one device draws on.
pub const DEVICE_CONSUMPTIONS_MAX: usize = 2;
/// Taints of one device.
pub const DEVICE_TAINTS_MAX: usize = 16;
/// Attributes and capacities of one device.
pub const DEVICE_ATTRIBUTES_MAX: usize = 32;
/// Values of all attributes of one device, lists counted by item.
pub const DEVICE_VALUES_MAX: usize = 48;
/// Bytes of a text attribute.
pub const DEVICE_ATTRIBUTE_MAX: usize = 64;
/// Audit annotations that are kept of one answer of a webhook: an audit event is written whole.
pub const WEBHOOK_AUDIT_ANNOTATIONS_MAX: usize = 64;
/// Bytes that are kept of the value of an audit annotation of a webhook or policy.
pub const AUDIT_VALUE_MAX: usize = 10 * 1024;
/// Warnings of all policies for one request: more than fits into the headers of an answer.
pub const POLICY_WARNINGS_MAX: usize = WARNINGS_MAX;
