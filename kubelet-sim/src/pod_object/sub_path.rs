//! The paths of volume mounts with a `subPathExpr`, in which `$(NAME)` stands for a variable of the container, and the kubelet's
//! errors about them. Pure.

use super::needs::EnvValue;
use crate::expansion::{TooLong, expand};
use crate::limits::ENVIRONMENT_BYTES;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The kubelet's error for the first of these expressions that has one: a variable without a value, a path that leaves the
/// volume, or a path that is too long.
pub(super) fn problem(
    exprs: &[String],
    values: &[(String, EnvValue)],
    annotations: &BTreeMap<String, String>,
) -> Option<String> {
    if exprs.is_empty() {
        return None;
    }
    let Ok(texts) = texts(values, annotations) else { return Some(too_long()) };
    exprs.iter().find_map(|expr| problem_of(expr, &texts))
}

fn too_long() -> String {
    "failed to prepare subPath for volumeMount: file name too long".to_owned()
}

fn problem_of(expr: &str, texts: &BTreeMap<&str, Option<String>>) -> Option<String> {
    let mut missing = BTreeSet::new();
    let path = expand(expr, |name| {
        let text = match texts.get(name) {
            Some(text) => text.as_deref(),
            None => Some(""),
        };
        if text == Some("") {
            missing.insert(name.to_owned());
        }
        // The text of a filled-in value does not matter here: it comes from the cluster, not from the pod's
        // author.
        Some(Cow::Borrowed(text.unwrap_or("value")))
    });
    let Ok(path) = path else { return Some(too_long()) };
    if !missing.is_empty() {
        let missing: Vec<String> = missing.into_iter().collect();
        return Some(format!("missing value for {}", missing.join(", ")));
    }
    if path.starts_with('/') {
        return Some(format!("error SubPath `{path}` must not be an absolute path"));
    }
    path.split('/')
        .any(|part| part == "..")
        .then(|| format!("unable to provision SubPath `{path}`: must not contain '..'"))
}

/// The texts of all variables, with earlier variables expanded; `None` for those that the kubelet fills in. Each is made once:
/// a variable that doubles the one before would otherwise take twice its time, too.
fn texts<'v>(
    values: &'v [(String, EnvValue)],
    annotations: &BTreeMap<String, String>,
) -> Result<BTreeMap<&'v str, Option<String>>, TooLong> {
    let (mut texts, mut bytes) = (BTreeMap::<&'v str, Option<String>>::new(), 0);
    for (name, value) in values {
        let text = match value {
            EnvValue::Filled => None,
            EnvValue::Annotation(key) => Some(annotations.get(key).cloned().unwrap_or_default()),
            EnvValue::Text(text) => {
                let mut filled = false;
                let text = expand(text, |name| match texts.get(name) {
                    Some(Some(text)) => Some(Cow::Borrowed(text.as_str())),
                    Some(None) => {
                        filled = true;
                        Some(Cow::Borrowed(""))
                    }
                    None => None,
                })?;
                (!filled || !text.is_empty()).then_some(text)
            }
        };
        bytes += text.as_ref().map_or(0, String::len);
        if bytes > ENVIRONMENT_BYTES {
            return Err(TooLong);
        }
        texts.insert(name, text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EXPANDED_BYTES;

    #[test]
    fn variables_that_double_are_refused_and_do_not_take_exponential_time() {
        let doubling = |count: usize| {
            let value = |number: usize| match number.checked_sub(1) {
                None => "0123456789".to_owned(),
                Some(before) => format!("$(V{before})$(V{before})"),
            };
            (0..count).map(|n| (format!("V{n}"), EnvValue::Text(value(n)))).collect::<Vec<_>>()
        };
        let problem =
            |exprs: &[String], values: &[(String, EnvValue)]| problem(exprs, values, &BTreeMap::new());
        let of = |count: usize| problem(&[format!("$(V{})", count - 1)], &doubling(count));
        assert_eq!((of(10), of(40)), (None, Some(too_long())));
        // Empty texts cost nothing but time.
        let mut empty = doubling(60);
        empty[0].1 = EnvValue::Text(String::new());
        let missing = problem(&["a/$(V59)".to_owned()], &empty);
        assert_eq!(missing.as_deref(), Some("missing value for V59"));
        let long = vec![("A".to_owned(), EnvValue::Text("x".repeat(EXPANDED_BYTES)))];
        assert_eq!(problem(&["$(A)$(A)".to_owned()], &long), Some(too_long()));
        assert_eq!(problem(&[], &doubling(40)), None);
    }
}
