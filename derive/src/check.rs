//! Checks of single attribute values at compile time, with rules of the API server. Expressions and paths are
//! checked by the server only.

/// Result of a check; the error says what the value must be.
pub(crate) type CheckResult = Result<(), String>;

/// Longest name of a label or kind.
const LABEL_MAX: usize = 63;
/// Longest API group.
const GROUP_MAX: usize = 253;
/// Longest deprecation warning.
const WARNING_MAX: usize = 256;

fn ensure(is_right: bool, wrong: impl FnOnce() -> String) -> CheckResult {
    if is_right { Ok(()) } else { Err(wrong()) }
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.len() <= LABEL_MAX
        && !text.is_empty()
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Checks a version, plural, singular, short name or category.
pub(crate) fn label(text: &str) -> CheckResult {
    ensure(is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()), || {
        format!(
            "{text:?} must be lower-case letters, digits and dashes, beginning with a letter, at most {LABEL_MAX}"
        )
    })
}

/// Checks a group, which has at least two parts.
pub(crate) fn group(text: &str) -> CheckResult {
    ensure(text.len() <= GROUP_MAX && text.contains('.') && text.split('.').all(is_label), || {
        format!("the group {text:?} must be a domain with two parts at least, as \"stable.example.com\"")
    })
}

/// Checks a kind, which is also a Rust type and, in lower case, a label.
pub(crate) fn kind(text: &str) -> CheckResult {
    let is_type =
        text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    ensure(is_type && text.len() <= LABEL_MAX, || {
        format!("the kind {text:?} must be letters and digits, beginning with a capital, as \"CronTab\"")
    })
}

/// Checks the name of a Rust type.
pub(crate) fn identifier(text: &str) -> CheckResult {
    ensure(syn::parse_str::<syn::Ident>(text).is_ok(), || format!("{text:?} must be the name of a Rust type"))
}

/// Checks the JSON path of a column or selectable field.
pub(crate) fn json_path(text: &str) -> CheckResult {
    ensure(text.starts_with('.') && text.len() > 1, || {
        format!("the path {text:?} must begin with a dot, as \".spec.schedule\"")
    })
}

/// Whether a path is below `root` and has no list items.
fn is_plain_path(text: &str, root: &str) -> bool {
    text.strip_prefix(root)
        .is_some_and(|rest| rest.len() > 1 && rest.starts_with('.') && !rest.contains(['[', ']']))
}

/// Checks the path of the desired replicas.
pub(crate) fn spec_path(text: &str) -> CheckResult {
    ensure(is_plain_path(text, ".spec"), || {
        format!("the path {text:?} must be below .spec, as \".spec.replicas\"")
    })
}

/// Checks the path of the current replicas.
pub(crate) fn status_path(text: &str) -> CheckResult {
    ensure(is_plain_path(text, ".status"), || {
        format!("the path {text:?} must be below .status, as \".status.replicas\"")
    })
}

/// Checks the path of the selector.
pub(crate) fn part_path(text: &str) -> CheckResult {
    ensure(is_plain_path(text, ".spec") || is_plain_path(text, ".status"), || {
        format!("the path {text:?} must be below .spec or .status, as \".status.selector\"")
    })
}

/// Checks the field path of a validation rule.
pub(crate) fn field_path(text: &str) -> CheckResult {
    ensure(text.len() > 1 && text.starts_with(['.', '[']), || {
        format!("the path {text:?} must begin with a dot, as \".spec.min\"")
    })
}

/// Checks that a text is not empty.
pub(crate) fn not_empty(text: &str) -> CheckResult {
    ensure(!text.trim().is_empty(), || "the text must not be empty".to_owned())
}

/// Checks the message of a validation rule, which is one line.
pub(crate) fn message(text: &str) -> CheckResult {
    not_empty(text)?;
    ensure(!text.contains('\n'), || "the message must be one line".to_owned())
}

/// Checks a deprecation warning.
pub(crate) fn warning(text: &str) -> CheckResult {
    not_empty(text)?;
    ensure(text.len() <= WARNING_MAX && !text.contains(char::is_control), || {
        format!("the warning must be one line of at most {WARNING_MAX} bytes")
    })
}

fn one_of(what: &str, text: &str, known: &[&str]) -> CheckResult {
    ensure(known.contains(&text), || format!("the {what} {text:?} must be one of {}", known.join(", ")))
}

/// Checks the type of a column.
pub(crate) fn column_type(text: &str) -> CheckResult {
    one_of("type", text, &["integer", "number", "string", "boolean", "date"])
}

/// Checks the format of a column.
pub(crate) fn column_format(text: &str) -> CheckResult {
    one_of("format", text, &["int32", "int64", "float", "double", "byte", "date", "date-time", "password"])
}

/// Checks the reason of a validation rule.
pub(crate) fn reason(text: &str) -> CheckResult {
    let known = ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
    one_of("reason", text, &known)
}
