//! Prints where the OpenAPI v3 documents of a Kubernetes version differ from this crate's: a missing member, default
//! value, enumeration or list type of the field table or of `facts.txt`. Descriptions are not compared.
//!
//! Run `cargo run -p kstore-api --example openapi_differences -- api/openapi-spec/v3` after the field table is generated,
//! with files or folders of the release, and correct table and facts until it prints no difference that is not meant.

use kstore_api::kind;
use kstore_api::openapi::{DocumentScope, GroupVersion, ResourceDoc};
use kstore_api::schema::{self, Type};
use kstore_api::version::Minor;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

type Outcome<T> = Result<T, String>;
/// Schemas by name.
type Schemas = BTreeMap<String, Value>;
fn main() -> Outcome<()> {
    let published = published(env::args().skip(1).map(PathBuf::from).collect())?;
    differences(&ours(), &published).iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn with_path<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// The schemas of all documents in these files and folders.
fn published(mut paths: Vec<PathBuf>) -> Outcome<Schemas> {
    if paths.is_empty() {
        return Err("usage: openapi_differences DOCUMENTS: see the top of this file".to_owned());
    }
    let mut schemas = Schemas::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).map_err(with_path(&path))? {
                let file = entry.map_err(with_path(&path))?.path();
                paths.extend(Some(file).filter(|file| file.extension().is_some_and(|name| name == "json")));
            }
            continue;
        }
        let text = fs::read_to_string(&path).map_err(with_path(&path))?;
        let mut document: Value = serde_json::from_str(&text).map_err(with_path(&path))?;
        let found = document.pointer_mut("/components/schemas").map(Value::take);
        schemas.extend(found.and_then(|found| found.as_object().cloned()).into_iter().flatten());
    }
    Ok(schemas)
}

/// Whether a type is the list of a kind: documents describe lists in their own words.
fn is_list(ty: &'static Type) -> bool {
    ty.has_kind && ty.name.ends_with("List") && ty.field("items").is_some()
}

/// The schemas of this crate's documents.
fn ours() -> Schemas {
    let mut resources: BTreeMap<(&str, &str), Vec<ResourceDoc>> = BTreeMap::new();
    for row in kind::every() {
        resources.entry((row.group, row.version)).or_default().push(row.into());
    }
    let scopes = resources.into_iter().map(|((group, version), docs)| {
        let gv = GroupVersion { group: group.to_owned(), version: version.to_owned() };
        DocumentScope::Resources(gv, docs)
    });
    let mut schemas = Schemas::new();
    let pages = [DocumentScope::Groups, DocumentScope::Versions, DocumentScope::Version];
    for scope in scopes.chain(pages.map(|page| page(Minor::DEFAULT))) {
        let mut document = scope.document();
        let found = document["components"]["schemas"].take();
        schemas.extend(found.as_object().cloned().into_iter().flatten());
    }
    schemas
}

/// What schemas of the same name say differently, and members that only one of them has. Lists, descriptions and
/// the kinds that a schema serves are not compared.
fn differences(ours: &Schemas, published: &Schemas) -> Vec<String> {
    let mut out = Vec::new();
    for (name, ours) in ours.iter().filter(|(name, _)| !schema::lookup(name).is_some_and(is_list)) {
        let Some(theirs) = published.get(name) else {
            out.push(format!("{name}: not published"));
            continue;
        };
        let (ours, theirs) = (facts(ours), facts(theirs));
        let members: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for member in members.into_iter().filter(|member| ours.get(*member) != theirs.get(*member)) {
            let text =
                |facts: &Map<String, Value>| facts.get(member).map_or("none".to_owned(), Value::to_string);
            out.push(format!("{name} {member}: ours {}, published {}", text(&ours), text(&theirs)));
        }
    }
    out
}

/// What a schema says of the type, under the name of the statement, and of each member, under `.` and its name.
fn facts(schema: &Value) -> Map<String, Value> {
    let mut facts = schema.as_object().cloned().unwrap_or_default();
    ["description", "properties", "x-kubernetes-group-version-kind"]
        .iter()
        .for_each(|name| drop(facts.remove(*name)));
    if let Some(Value::Array(required)) = facts.get_mut("required") {
        required.sort_by_key(Value::to_string);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let mut property = property.clone();
        let mut at = Some(&mut property);
        while let Some(Value::Object(schema)) = at {
            schema.remove("description");
            if let Some(reference) = schema.get("allOf").and_then(|all| all[0].get("$ref")).cloned() {
                schema.remove("allOf");
                schema.insert("$ref".to_owned(), reference);
            }
            let elements = if schema.contains_key("items") { "items" } else { "additionalProperties" };
            at = schema.get_mut(elements);
        }
        facts.insert(format!(".{name}"), property);
    }
    facts
}
