//! Bounds of objects with their reasons. Other crates have the bounds of requests and queues.

/// Values that one YAML document may decode into. Aliases repeat values, so the length alone does not bound
/// memory.
pub const YAML_VALUES: usize = 500_000;
/// Values that a YAML document may have beyond its number of bytes, which only aliases can give it. Manifests with anchors
/// repeat some hundred values. A scalar counts twice, as a value and for its text; no text without aliases has more than one for each
/// byte.
pub const YAML_ALIASED_VALUES: usize = 10_000;
/// Nesting depth of maps and lists in one YAML document, equal to that of JSON bodies.
pub const YAML_DEPTH: usize = 128;
/// Nesting depth of lists and objects in JSON text that is decoded into types: as deep as `serde_json` reads values, which each level of
/// the text costs a frame of the stack.
pub const JSON_DEPTH: usize = 127;
/// Repeated keys of one YAML document that errors and warnings list.
pub const YAML_REPEATED_KEYS: usize = 20;
/// Bytes of all static manifests of one admission plugin, which are read as a whole. Webhooks and policies have some kilobytes each.
pub const MANIFEST_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a DNS-1123 subdomain; RFC 1123 bounds host names.
pub const SUBDOMAIN_MAX: usize = 253;
/// Bytes of a DNS label; RFC 1035.
pub const LABEL_MAX: usize = 63;
/// Bytes of a label value: one DNS label, so that values can become host names.
pub const LABEL_VALUE_MAX: usize = 63;
/// Bytes of all annotation keys and values of one object; keeps lists of objects transferable.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;
/// Bytes of all values in one Secret or ConfigMap: the store's request limit (etcd's 1.5 MiB) minus space for
/// metadata.
pub const DATA_MAX: usize = 1024 * 1024;
/// Bytes of the diff in a refused change; the rest is truncated, since people read it.
pub const DIFF_MAX: usize = 16 * 1024;
/// Lines of both values that a diff compares; the time grows with the square. A pod has some hundred lines.
pub const DIFF_LINES_MAX: usize = 4_000;
/// Validation errors reported for one object. Validation stops at this number.
pub const ERRORS_MAX: usize = 100;
/// Bytes of all validation errors, except a first large one. Errors quote whole values, which can be as large
/// as the object.
pub const ERROR_BYTES_MAX: usize = 256 * 1024;
/// Warnings for one object; more than fits into response headers.
pub const WARNINGS_MAX: usize = 256;
/// Bytes of the patterns whose check is remembered, with their errors. The patterns of some hundred definitions have as many.
pub const CHECKED_PATTERNS_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a field manager's name in managed fields.
pub const FIELD_MANAGER_MAX: usize = 128;
/// Bytes of a subresource's name in managed fields.
pub const SUBRESOURCE_NAME_MAX: usize = 256;
/// Bytes of a trust bundle.
pub const TRUST_BUNDLE_MAX: usize = 1024 * 1024;
/// Malformed blocks skipped in a PEM text; each costs a search of the remaining text.
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
/// Highest priority of a user's class; higher ones are reserved for the system.
pub const USER_PRIORITY_MAX: i64 = 1_000_000_000;
/// Bytes of a condition's message.
pub const CONDITION_MESSAGE_MAX: usize = 32 * 1024;
/// Bytes of a condition's reason.
pub const CONDITION_REASON_MAX: usize = 1024;
/// Bytes of a driver's name, which becomes a label.
pub const DRIVER_NAME_MAX: usize = LABEL_MAX;
/// Bytes of an ingress class's controller.
pub const INGRESS_CONTROLLER_MAX: usize = 250;
/// Labels of one endpoint's topology.
pub const ENDPOINT_TOPOLOGY_MAX: usize = 16;
/// Zones or nodes in the hints of one endpoint.
pub const ENDPOINT_HINTS_MAX: usize = 8;
/// Longest period of a scaling policy in seconds; controllers must remember that long.
pub const SCALING_PERIOD_MAX: i64 = 1800;
/// Longest stabilization window of scaling in seconds.
pub const SCALING_WINDOW_MAX: i64 = 3600;
/// Parameters of a storage class.
pub const STORAGE_PARAMETERS_MAX: usize = 512;
/// Bytes of all parameters of a storage class.
pub const STORAGE_PARAMETERS_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a node's ID in a CSI driver; the limit of the CSI specification.
pub const CSI_NODE_ID_MAX: usize = 256;
/// Bytes of the metadata for an attached volume.
pub const VOLUME_METADATA_MAX: usize = 256 * 1024;
/// Bytes of the message of a failed attachment.
pub const VOLUME_ERROR_MAX: usize = 1024;
/// Highest matching precedence of a flow schema.
pub const FLOW_PRECEDENCE_MAX: i64 = 10_000;
/// Queues of a priority level.
pub const LEVEL_QUEUES_MAX: i64 = 10_000_000;
/// Hash bits of a flow; a hand of queues must be dealt from them.
pub const LEVEL_HASH_BITS_MAX: u32 = 60;
/// Seconds of the shortest lifetime of a pod's certificate: an hour.
pub const POD_CERTIFICATE_SECONDS_MIN: i64 = 3600;
/// Seconds of the longest lifetime of a pod's certificate: 91 days.
pub const POD_CERTIFICATE_SECONDS_MAX: i64 = 91 * 86_400;
/// Seconds of the longest lifetime of a pod's certificate of a signer of Kubernetes: a day.
pub const POD_CERTIFICATE_SECONDS_MAX_OF_KUBERNETES: i64 = 86_400;
/// Bytes of the request for a pod's certificate.
pub const CERTIFICATE_REQUEST_MAX: usize = 10 * 1024;
/// Bytes of the certificates that a pod gets.
pub const CERTIFICATE_CHAIN_MAX: usize = 100 * 1024;
/// Bytes of a uid that an object refers to.
pub const UID_MAX: usize = 128;
/// Shortest lifetime of a requested certificate in seconds; shorter ones would expire before they are
/// distributed.
pub const CERTIFICATE_SECONDS_MIN: i64 = 600;
/// Bytes of an event's reporter, action or reason.
pub const EVENT_WORD_MAX: usize = 128;
/// Bytes of an event's note.
pub const EVENT_NOTE_MAX: usize = 1024;
/// Highest priority of an API group.
pub const API_GROUP_PRIORITY_MAX: i64 = 20_000;
/// Highest priority of a version in its API group.
pub const API_VERSION_PRIORITY_MAX: i64 = 1000;
/// Shortest lifetime of a requested token in seconds.
pub const TOKEN_SECONDS_MIN: i64 = 600;
/// Longest lifetime of a requested token in seconds.
pub const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// Match conditions of one webhook or policy; each is evaluated for every request.
pub const MATCH_CONDITIONS_MAX: usize = 64;
/// Variables of one admission policy. Each is compiled with all earlier ones, which takes quadratic time.
/// Kubernetes has no such bound; policies have a handful of variables.
pub const POLICY_VARIABLES_MAX: usize = 256;
/// Kinds for type checking of one policy, as in Kubernetes; each check compiles all expressions.
pub const POLICY_KINDS_CHECKED_MAX: usize = 10;
/// Bytes of type-checking warnings of one policy. They quote its expressions for each kind and are stored
/// with it.
pub const POLICY_WARNING_BYTES_MAX: usize = 256 * 1024;
/// Audit annotations of one policy.
pub const AUDIT_ANNOTATIONS_MAX: usize = 20;
/// Bytes of the expression of an audit annotation.
pub const AUDIT_EXPRESSION_MAX: usize = 5 * 1024;
/// Requests of one resource claim, and results of its allocation.
pub const DEVICE_REQUESTS_MAX: usize = 32;
/// Alternatives of one device request.
pub const DEVICE_SUBREQUESTS_MAX: usize = 8;
/// Constraints of one resource claim.
pub const DEVICE_CONSTRAINTS_MAX: usize = 32;
/// Driver configurations of one claim or class.
pub const DEVICE_CONFIGS_MAX: usize = 32;
/// Selectors of one request or class.
pub const DEVICE_SELECTORS_MAX: usize = 32;
/// Bytes of a device selector expression.
pub const DEVICE_EXPRESSION_MAX: usize = 10 * 1024;
/// Bytes of a driver's opaque parameters.
pub const DEVICE_PARAMETERS_MAX: usize = 10 * 1024;
/// Bytes of the name of an attribute or capacity, without its domain.
pub const DEVICE_ID_MAX: usize = 32;
/// Binding conditions of a device, and binding failure conditions.
pub const DEVICE_BINDING_CONDITIONS_MAX: usize = 4;
/// Consumers of one resource claim.
pub const CLAIM_CONSUMERS_MAX: usize = 256;
/// Devices of one resource slice.
pub const SLICE_DEVICES_MAX: usize = 128;
/// Devices of one resource slice if some have taints, counters or lists.
pub const SLICE_DEVICES_ADVANCED_MAX: usize = 64;
/// Counter sets of one resource slice.
pub const COUNTER_SETS_MAX: usize = 8;
/// Counters of one set or consumption.
pub const COUNTERS_MAX: usize = 32;
/// Counter sets that one device consumes.
pub const DEVICE_CONSUMPTIONS_MAX: usize = 2;
/// Taints of one device.
pub const DEVICE_TAINTS_MAX: usize = 16;
/// Conditions in the status of a device taint rule.
pub const TAINT_RULE_CONDITIONS_MAX: usize = 8;
/// Attributes and capacities of one device.
pub const DEVICE_ATTRIBUTES_MAX: usize = 32;
/// Values of all attributes of one device; lists count by item.
pub const DEVICE_VALUES_MAX: usize = 48;
/// Bytes of a text attribute.
pub const DEVICE_ATTRIBUTE_MAX: usize = 64;
/// Audit annotations kept from one webhook response; audit events are written as a whole.
pub const WEBHOOK_AUDIT_ANNOTATIONS_MAX: usize = 64;
/// Bytes kept of an audit annotation's value from a webhook or policy.
pub const AUDIT_VALUE_MAX: usize = 10 * 1024;
/// Warnings of all policies for one request; more than fits into response headers.
pub const POLICY_WARNINGS_MAX: usize = WARNINGS_MAX;
