//! Bounds of decoding, patching and the protobuf codec.

/// Deepest nesting of structs accepted. JSON parsing stops at 128 levels too; only JSON schemas nest at all.
pub(crate) const MAX_DEPTH: usize = 128;

/// Unknown and duplicate fields reported for one body. More would not fit in the warning headers.
pub(crate) const MAX_FIELD_PROBLEMS: usize = 100;

/// Bytes of path text that sorting unknown fields may build for one body. Below a long key the paths of all
/// members are far longer than the body. Beyond the bound, the remaining unknown fields come last.
pub(crate) const MAX_SPELLED_BYTES: usize = 64 << 20;

/// Bytes of one protobuf body: the request limit of the API.
pub(crate) const MAX_WIRE_BYTES: usize = 3 << 20;

/// JSON values that one protobuf body may decode into. Two bytes can name an empty message, so the length
/// alone does not bound memory.
pub(crate) const MAX_WIRE_VALUES: usize = 500_000;

/// Operations of one JSON patch; more is a 413, as in Kubernetes.
pub(crate) const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Bytes that the copy operations of one JSON patch may add. Without a bound, each copy could double the
/// object.
pub(crate) const MAX_COPY_BYTES: usize = 3 << 20;

/// List elements that one JSON patch may shift by adding and removing elements before them; this many take
/// some tenths of a second. Thousands of operations on the head of a list of a million elements would take
/// minutes. More is a 413.
pub(crate) const MAX_SHIFTED_ELEMENTS: usize = 20_000_000;

/// Values that one JSON patch may add or move, all operations together: the nesting of each is measured before. This many take
/// some tenths of a second. More is a 413.
pub(crate) const MAX_MEASURED_VALUES: usize = 20_000_000;

/// Elements of one list of a strategic merge patch that may have the same merge key. Each is merged with the
/// whole element of the object, nested lists included, so thousands would take minutes. Clients use a key
/// once; more than this is a 413.
pub(crate) const MAX_REPEATED_ELEMENTS: usize = 32;

/// Update entries in managedFields. Beyond it the oldest entries are merged into one, as in Kubernetes.
pub(crate) const MAX_UPDATE_MANAGERS: usize = 10;
