//! Checks of single values of the attribute: what an API server would refuse, refused where it is written. Not all of what it checks:
//! expressions and paths are read by the server.

/// `Err` says what the value must be.
pub(crate) type Checked = Result<(), String>;

/// The longest name of a label or kind.
const LABEL_MAX: usize = 63;
/// The longest group.
const GROUP_MAX: usize = 253;
/// The longest warning of a deprecated version.
const WARNING_MAX: usize = 256;

fn ensure(is_right: bool, wrong: impl FnOnce() -> String) -> Checked {
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

/// Versions, plural, singular and short names, categories.
pub(crate) fn label(text: &str) -> Checked {
    ensure(is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()), || {
        format!(
            "{text:?} must be lower-case letters, digits and dashes, beginning with a letter, at most {LABEL_MAX}"
        )
    })
}

/// Groups of custom kinds have two parts at least.
pub(crate) fn group(text: &str) -> Checked {
    ensure(text.len() <= GROUP_MAX && text.contains('.') && text.split('.').all(is_label), || {
        format!("the group {text:?} must be a domain with two parts at least, as \"stable.example.com\"")
    })
}

/// Kinds are also Rust types and, in lower case, labels.
pub(crate) fn kind(text: &str) -> Checked {
    let is_type =
        text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    ensure(is_type && text.len() <= LABEL_MAX, || {
        format!("the kind {text:?} must be letters and digits, beginning with a capital, as \"CronTab\"")
    })
}

/// The name of a Rust type.
pub(crate) fn identifier(text: &str) -> Checked {
    ensure(syn::parse_str::<syn::Ident>(text).is_ok(), || format!("{text:?} must be the name of a Rust type"))
}

/// JSON paths of columns and selectable fields.
pub(crate) fn json_path(text: &str) -> Checked {
    ensure(text.starts_with('.') && text.len() > 1, || {
        format!("the path {text:?} must begin with a dot, as \".spec.schedule\"")
    })
}

/// A path without items of lists.
fn is_plain_path(text: &str, root: &str) -> bool {
    text.strip_prefix(root)
        .is_some_and(|rest| rest.len() > 1 && rest.starts_with('.') && !rest.contains(['[', ']']))
}

/// The path of the wanted replicas.
pub(crate) fn spec_path(text: &str) -> Checked {
    ensure(is_plain_path(text, ".spec"), || {
        format!("the path {text:?} must be below .spec, as \".spec.replicas\"")
    })
}

/// The path of the replicas that are.
pub(crate) fn status_path(text: &str) -> Checked {
    ensure(is_plain_path(text, ".status"), || {
        format!("the path {text:?} must be below .status, as \".status.replicas\"")
    })
}

/// The path of the selector.
pub(crate) fn part_path(text: &str) -> Checked {
    ensure(is_plain_path(text, ".spec") || is_plain_path(text, ".status"), || {
        format!("the path {text:?} must be below .spec or .status, as \".status.selector\"")
    })
}

/// The path of the field that a rule refuses.
pub(crate) fn field_path(text: &str) -> Checked {
    ensure(text.len() > 1 && text.starts_with(['.', '[']), || {
        format!("the path {text:?} must begin with a dot, as \".spec.min\"")
    })
}

/// Texts that say something.
pub(crate) fn not_empty(text: &str) -> Checked {
    ensure(!text.trim().is_empty(), || "the text must not be empty".to_owned())
}

/// Messages of rules are one line.
pub(crate) fn message(text: &str) -> Checked {
    not_empty(text)?;
    ensure(!text.contains('\n'), || "the message must be one line".to_owned())
}

/// Warnings of deprecated versions.
pub(crate) fn warning(text: &str) -> Checked {
    not_empty(text)?;
    ensure(text.len() <= WARNING_MAX && !text.contains(char::is_control), || {
        format!("the warning must be one line of at most {WARNING_MAX} bytes")
    })
}

fn one_of(what: &str, text: &str, known: &[&str]) -> Checked {
    ensure(known.contains(&text), || format!("the {what} {text:?} must be one of {}", known.join(", ")))
}

/// Types of columns.
pub(crate) fn column_type(text: &str) -> Checked {
    one_of("type", text, &["integer", "number", "string", "boolean", "date"])
}

/// Formats of columns.
pub(crate) fn column_format(text: &str) -> Checked {
    one_of("format", text, &["int32", "int64", "float", "double", "byte", "date", "date-time", "password"])
}

/// Reasons of rules.
pub(crate) fn reason(text: &str) -> Checked {
    let known = ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
    one_of("reason", text, &known)
}
