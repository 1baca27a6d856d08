//! Values in the texts of errors, as Go prints them. Objects here are JSON, where an unset member is absent. Go's validation has the
//! zero value of the member's type instead: `""` for a string, and `{}` or `[]` for a map or list that a client emptied.

use crate::field::ErrorList;
use crate::resource::Resource;
use crate::schema::{Elem, Shape, Type};
use serde_json::Value;

/// Replaces `null` in the texts of errors about an object where Go has another value. Paths that the field table does not
/// know keep their texts.
pub(super) fn as_in_go(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    if resource.custom.is_some() || errors.is_empty() {
        return;
    }
    if let Some(ty) = resource.object_type() {
        errors.replace_nulls(|path| go_value(ty, object, path));
    }
}

/// The text of Go's value at a path; `None` if that is `null`, or if the path is none of the type.
fn go_value(ty: &'static Type, object: &Value, path: &str) -> Option<String> {
    let (mut ty, mut at) = (Some(ty), object);
    // Of the member at `at`: its element, shape, and whether it is a pointer.
    let mut member = None;
    for step in Steps(path) {
        member = Some(match step {
            Step::Key(key) => {
                let (elem, shape, _) = member?;
                at = match shape {
                    Shape::One => return None,
                    Shape::List => at.get(key.parse::<usize>().ok()?).unwrap_or(&Value::Null),
                    Shape::Map => &at[key],
                };
                (elem, Shape::One, false)
            }
            Step::Member(name) => {
                if member.is_some_and(|(_, shape, _)| shape != Shape::One) {
                    return None;
                }
                let field = ty?.field(name)?;
                ty = field.struct_type();
                at = &at[name];
                (field.elem, field.shape, field.pointer)
            }
        });
    }
    match member? {
        (_, Shape::List, _) => at.as_array().filter(|items| items.is_empty()).map(|_| "[]".to_owned()),
        (_, Shape::Map, _) => at.as_object().filter(|entries| entries.is_empty()).map(|_| "{}".to_owned()),
        (elem, Shape::One, false) if at.is_null() => zero(elem).map(str::to_owned),
        _ => None,
    }
}

fn zero(elem: Elem) -> Option<&'static str> {
    match elem {
        Elem::String => Some(r#""""#),
        Elem::Bool => Some("false"),
        Elem::Int32 | Elem::Int64 | Elem::Float64 => Some("0"),
        _ => None,
    }
}

/// One step of a path's text.
enum Step<'a> {
    Member(&'a str),
    /// Index or key, written `[…]`.
    Key(&'a str),
}

/// The steps of a text such as `spec.template.labels[a.b/c]`.
struct Steps<'a>(&'a str);

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        if let Some(rest) = self.0.strip_prefix('[') {
            let (key, rest) = rest.split_once(']').unwrap_or((rest, ""));
            self.0 = rest.strip_prefix('.').unwrap_or(rest);
            return Some(Step::Key(key));
        }
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.find(['.', '[']).unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at(end);
        self.0 = rest.strip_prefix('.').unwrap_or(rest);
        Some(Step::Member(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unset_values_are_shown_as_zero_values_of_go() {
        let deployment = crate::schema::of("apps", "v1", "Deployment").unwrap();
        let object = json!({
            "metadata": {"labels": {}, "finalizers": []},
            "spec": {"template": {"metadata": {"labels": {"a.b/c": "d"}}, "spec": {"nodeSelector": {}, "containers": [{"args": []}]}}},
        });
        let text = |path| go_value(deployment, &object, path);
        let cases = [
            ("metadata.labels", Some("{}")),
            ("metadata.finalizers", Some("[]")),
            ("metadata.annotations", None),
            ("metadata.name", Some("\"\"")),
            ("spec.minReadySeconds", Some("0")),
            ("spec.paused", Some("false")),
            ("spec.replicas", None),
            ("spec.strategy", None),
            ("spec.template.spec.nodeSelector", Some("{}")),
            ("spec.template.spec.containers[0].args", Some("[]")),
            ("spec.template.spec.containers[0].image", Some("\"\"")),
            ("spec.template.spec.containers[0].restartPolicy", None),
            ("spec.template.metadata.labels[x.y/z]", Some("\"\"")),
            ("spec.template.metadata.labels[a.b/c]", None),
            ("spec.nothing.of.it", None),
            ("spec.template.spec.containers.image", None),
            ("<nil>", None),
            ("", None),
        ];
        for (path, want) in cases {
            assert_eq!(text(path).as_deref(), want, "{path}");
        }
    }
}
