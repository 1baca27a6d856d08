//! Parses manifest texts into objects: several documents in a text, and lists as their items. Pure.

use crate::limits::MANIFEST_DOCUMENT_BYTES;
use kstore_api::yaml;
use serde_json::Value;

/// The defect of an invalid manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is neither YAML nor JSON.
    #[error("document {document} of the manifest (line {line}) cannot be parsed: {reason}")]
    Syntax {
        /// The number of the document, starting at 1.
        document: usize,
        /// The line of the text at which the document begins, starting at 1. Lines in `reason` count from
        /// there.
        line: usize,
        /// The parser's message.
        reason: String,
    },
    /// A document is not a Kubernetes object.
    #[error(
        "document {document} of the manifest has no {field}; every object needs apiVersion, kind and metadata.name"
    )]
    Incomplete {
        /// The number of the document, starting at 1.
        document: usize,
        /// The missing field.
        field: &'static str,
    },
}

/// An object of a manifest, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestObject {
    /// The number of its document, starting at 1.
    pub document: usize,
    /// The object.
    pub value: Value,
}

impl ManifestObject {
    /// `apiVersion`, such as `apps/v1`, or empty.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// `kind`, such as `Deployment`, or empty.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// `metadata.name`, or empty.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`, or empty.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// Whether the object is a CustomResourceDefinition of any version.
    pub fn is_definition(&self) -> bool {
        self.kind() == "CustomResourceDefinition" && self.api_version().starts_with("apiextensions.k8s.io/")
    }

    /// Checks for `apiVersion`, `kind`, and `metadata.name` or `metadata.generateName`.
    ///
    /// # Errors
    ///
    /// [`ManifestError::Incomplete`] with the first missing field.
    pub fn check(&self) -> Result<(), ManifestError> {
        let names = [self.name(), self.text("/metadata/generateName")].concat();
        let required =
            [("apiVersion", self.api_version()), ("kind", self.kind()), ("metadata.name", names.as_str())];
        match required.into_iter().find(|(_, value)| value.is_empty()) {
            Some((field, _)) => Err(ManifestError::Incomplete { document: self.document, field }),
            None => Ok(()),
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The objects of a text in their order: without empty documents, and with the items of a list in place of
/// the list. Fields may be missing; [`ManifestObject::check`] tests that.
///
/// # Errors
///
/// [`ManifestError::Syntax`] for the first document that cannot be parsed.
pub fn objects(text: &str) -> Result<Vec<ManifestObject>, ManifestError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut objects = Vec::new();
    for (document, value) in (1..).zip(documents(text)?) {
        if !value.is_null() {
            expand(document, value, &mut objects);
        }
    }
    Ok(objects)
}

/// Moves CustomResourceDefinitions and then Namespaces before the objects that may need them; the order is
/// otherwise stable.
pub fn sort_for_apply(objects: &mut [ManifestObject]) {
    objects.sort_by_key(|object| match object.kind() {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        _ => 2,
    });
}

/// The documents of a text: consecutive JSON values, or YAML documents.
fn documents(text: &str) -> Result<Vec<Value>, ManifestError> {
    if text.trim_start().starts_with('{')
        && let Ok(values) = serde_json::Deserializer::from_str(text).into_iter().collect()
    {
        return Ok(values);
    }
    let parsed = (1..).zip(split(text)).map(|(document, (line, text))| {
        let parsed = yaml::parse(text.as_bytes(), MANIFEST_DOCUMENT_BYTES);
        parsed.map(|parsed| parsed.value).map_err(|reason| ManifestError::Syntax { document, line, reason })
    });
    parsed.collect()
}

/// The YAML documents of a text, each with its first line. Text before the first `---` is a document if it
/// has more than blank lines and comments.
fn split(text: &str) -> Vec<(usize, &str)> {
    let (mut documents, mut start, mut first, mut at) = (Vec::new(), 0, 1, 0);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if is_separator(line) && start < at {
            documents.push((first, &text[start..at]));
            (start, first) = (at, number);
        }
        at += line.len();
    }
    documents.push((first, &text[start..]));
    if documents.len() > 1 && is_blank(documents[0].1) {
        documents.remove(0);
    }
    documents
}

/// Whether a line begins another document: `---`, alone or before a blank.
fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with('#'))
}

/// The document's object, or the items of its list. Items of a typed list, such as a `ConfigMapList`, get the
/// item kind.
fn expand(document: usize, mut value: Value, objects: &mut Vec<ManifestObject>) {
    let kind = value["kind"].as_str().unwrap_or_default();
    let item_kind = match (kind.strip_suffix("List"), &value["items"]) {
        (Some(item_kind), Value::Array(_)) => item_kind.to_owned(),
        _ => return objects.push(ManifestObject { document, value }),
    };
    let api_version = value["apiVersion"].take();
    let Value::Array(items) = value["items"].take() else { return };
    for mut item in items {
        if let Some(fields) = item.as_object_mut()
            && !item_kind.is_empty()
        {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone());
            fields.entry("kind").or_insert_with(|| item_kind.clone().into());
        }
        expand(document, item, objects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A name, a text, and the documents and names of its objects.
    type Case = (&'static str, String, &'static [(usize, &'static str)]);

    fn names(text: &str) -> Vec<(usize, String)> {
        let objects = objects(text).unwrap();
        objects.iter().map(|object| (object.document, object.name().to_owned())).collect()
    }

    #[test]
    fn objects_come_in_the_order_of_the_text_with_lists_expanded() {
        let pod = |name: &str| format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}}}");
        let list = "apiVersion: v1\nkind: List\nitems:\n- metadata: {name: b}\n- metadata: {name: c}\n";
        let json = |name: &str| json!({"kind": "Pod", "metadata": {"name": name}}).to_string();
        let cases: [Case; 12] = [
            ("nothing", String::new(), &[]),
            ("comments alone", "# nothing\n\n---\n# here\n".into(), &[]),
            ("one document", pod("a"), &[(1, "a")]),
            ("a marker before the first", format!("---\n{}\n", pod("a")), &[(1, "a")]),
            ("a comment before it", format!("# licence\n---\n{}\n", pod("a")), &[(1, "a")]),
            (
                "empty documents",
                format!("{}\n---\n---\n{}\n---\n", pod("a"), pod("b")),
                &[(1, "a"), (3, "b")],
            ),
            (
                "an object beside its marker",
                format!("--- {}\n--- # c\n{}", pod("a"), pod("b")),
                &[(1, "a"), (2, "b")],
            ),
            ("lines of Windows", format!("{}\r\n---\r\n{}\r\n", pod("a"), pod("b")), &[(1, "a"), (2, "b")]),
            ("a list", format!("{}\n---\n{list}", pod("a")), &[(1, "a"), (2, "b"), (2, "c")]),
            ("dashes in a text", "metadata:\n  name: |-\n    a\n    ---\n".into(), &[(1, "a\n---")]),
            (
                "JSON, indented by tabs",
                "{\n\t\"metadata\": {\n\t\t\"name\": \"a\"\n\t}\n}\n".into(),
                &[(1, "a")],
            ),
            (
                "JSON values in a row",
                format!("{}{}\n{}", json("a"), json("b"), json("c")),
                &[(1, "a"), (2, "b"), (3, "c")],
            ),
        ];
        for (case, text, want) in cases {
            let want: Vec<_> = want.iter().map(|(document, name)| (*document, (*name).to_owned())).collect();
            assert_eq!(names(&text), want, "{case}");
        }
    }

    #[test]
    fn a_typed_list_sets_the_kind_of_its_items_and_an_object_with_items_is_not_a_list() {
        let text = "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}]\n---\n\
                    apiVersion: a.b/v1\nkind: Menu\nmetadata: {name: m}\nitems: [{kind: Pod}]\n";
        let objects = objects(text).unwrap();
        assert_eq!((objects[0].api_version(), objects[0].kind()), ("v1", "ConfigMap"));
        assert_eq!(objects[1].value["items"], json!([{"kind": "Pod"}]));
        assert_eq!(objects.len(), 2);
    }

    #[test]
    fn yaml_is_parsed_by_kubernetes_rules() {
        let objects = objects("data: {mode: 0644, on: yes, at: 2001-12-14}").unwrap();
        assert_eq!(objects[0].value["data"], json!({"mode": 420, "true": true, "at": "2001-12-14"}));
    }

    #[test]
    fn definitions_and_namespaces_can_be_moved_before_the_objects_that_need_them() {
        let text = "
{kind: ConfigMap, metadata: {name: first}}
---
{kind: Namespace, metadata: {name: space}}
---
{kind: CustomResourceDefinition, metadata: {name: a.b}}
---
{kind: Secret, metadata: {name: second}}
";
        let mut objects = objects(text).unwrap();
        sort_for_apply(&mut objects);
        let names: Vec<_> = objects.iter().map(ManifestObject::name).collect();
        assert_eq!(names, ["a.b", "space", "first", "second"]);
    }

    #[test]
    fn errors_name_the_document_and_the_field_or_line() {
        let error = |text: &str| match objects(text) {
            Ok(objects) => objects.iter().find_map(|object| object.check().err()).unwrap().to_string(),
            Err(error) => error.to_string(),
        };
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
        for (text, want) in [
            (format!("{pod}---\nkind: Pod\n"), "document 2 of the manifest has no apiVersion"),
            ("a plain text".into(), "document 1 of the manifest has no apiVersion"),
            ("apiVersion: v1\nkind: [Pod]\n".into(), "document 1 of the manifest has no kind"),
            ("apiVersion: v1\nkind: Pod\n".into(), "document 1 of the manifest has no metadata.name"),
            ("a: [".into(), "document 1 of the manifest (line 1) cannot be parsed: yaml: line "),
            (
                format!("{pod}---\na: b: c\n"),
                "document 2 of the manifest (line 4) cannot be parsed: yaml: line 2: ",
            ),
        ] {
            assert!(error(&text).starts_with(want), "{text}: {}", error(&text));
        }
        assert_eq!(
            objects("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}").unwrap()[0].check(),
            Ok(())
        );
    }
}
