//! Bounds of everything driven by the field table.

/// Deepest nesting of structs accepted. JSON parsing stops at 128 levels too; only JSON schemas nest at all.
pub(crate) const MAX_DEPTH: usize = 128;

/// Unknown and duplicate fields reported for one body. More would not fit in the warning headers that carry them.
pub(crate) const MAX_FIELD_PROBLEMS: usize = 100;

/// Bytes of paths that finding the order of unknown fields may spell out, one for each member of a body: below a long key they are
/// far more than the body. Beyond it the rest of the unknown fields come last.
pub(crate) const MAX_SPELLED_BYTES: usize = 64 << 20;

/// Bytes of one protobuf body: the request limit of the API.
pub(crate) const MAX_WIRE_BYTES: usize = 3 << 20;

/// JSON values one protobuf body may unfold into. Two bytes can name an empty message, so bytes alone do not bound memory.
pub(crate) const MAX_WIRE_VALUES: usize = 500_000;

/// Operations of one JSON patch; more is a 413, as in Kubernetes.
pub(crate) const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Bytes that the copy operations of one JSON patch may add; without a bound each could double the object.
pub(crate) const MAX_COPY_BYTES: usize = 3 << 20;

/// List elements that the operations of one JSON patch may move by adding and removing others before them: some tenths of a second.
/// Thousands of operations on the head of a list of a million would take minutes; more than this is a 413.
pub(crate) const MAX_SHIFTED_ELEMENTS: usize = 20_000_000;

/// Elements of one list of a strategic merge patch that may name the same element of the object. Each is merged with all of that
/// element, lists below it included, so thousands would take minutes; clients name an element once. More is a 413.
pub(crate) const MAX_REPEATED_ELEMENTS: usize = 32;

/// Update entries in managedFields; the oldest are merged into one beyond it, as in Kubernetes.
pub(crate) const MAX_UPDATE_MANAGERS: usize = 10;
