//! Writes the descriptions of types and members (`api/schema/*.txt`) from the OpenAPI v3 documents of a Kubernetes
//! version, and prints where the schemas of those documents differ from this crate's: a missing member, default
//! value, enumeration or list type of the field table or of `facts.txt`.
//!
//! Run `cargo run -p kstore-api --example openapi_descriptions -- api/openapi-spec/v3` after the field table is
//! generated, with files or folders of the release, and review `git diff api/schema`. Run it again until it prints no
//! difference that is not meant: descriptions it writes, the rest is corrected by hand.

use kstore_api::kind::{OPT_IN, RESOURCES};
use kstore_api::openapi::{DocumentScope, GroupVersion, ResourceDoc};
use kstore_api::schema::{self, Type};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

type Outcome<T> = Result<T, String>;
/// Schemas by name.
type Schemas = BTreeMap<String, Value>;
/// Descriptions by type: an empty name for that of the type, and those of its members.
type Texts = BTreeMap<String, BTreeMap<String, String>>;

const HEADER: &str = "# Descriptions from the OpenAPI documents of Kubernetes (Copyright The Kubernetes Authors, Apache License 2.0).\n\
    # Written by examples/openapi_descriptions.rs; notation: src/openapi/descriptions.rs.\n";
const REFERENCE: &str = "#/components/schemas/";

/// Types that no other type refers to, and that are in no table.
const BODIES: [&str; 3] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
    "io.k8s.apimachinery.pkg.version.Info",
];

/// Shortest text that several members share by a name.
const SHARED_LENGTH: usize = 40;

fn main() -> Outcome<()> {
    let published = published(env::args().skip(1).map(PathBuf::from).collect())?;
    let texts = texts(&published);
    let shared = shared(&texts);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let mut unwritten = texts;
    for entry in fs::read_dir(&folder).map_err(with_path(&folder))? {
        let path = entry.map_err(with_path(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == "tbl") {
            let table = fs::read_to_string(&path).map_err(with_path(&path))?;
            let head = table.lines().find_map(|line| line.strip_prefix("@ ")).ok_or("a table without `@`")?;
            let prefix = head.split(' ').nth(1).ok_or("no OpenAPI prefix")?;
            let is_here = |name: &String| name.rsplit_once('.').is_some_and(|(of, _)| of == prefix);
            let is_listed = |name: &String| is_here(name) && schema::lookup(name).is_some();
            let own: Texts = unwritten
                .iter()
                .filter(|(name, _)| is_listed(name))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            unwritten.retain(|name, _| !own.contains_key(name));
            let text = format!("{HEADER}@ {prefix}\n{}", lines(&own, &shared));
            let path = path.with_extension("txt");
            fs::write(&path, text).map_err(with_path(&path))?;
        }
    }
    write_unlisted(&folder.join("unlisted.txt"), &unwritten, &shared)?;
    let path = folder.join("shared.txt");
    let names: BTreeMap<&String, &String> = shared.iter().map(|(text, name)| (name, text)).collect();
    let mut text = HEADER.to_owned();
    for (name, shared) in names {
        let _ = writeln!(text, "${name} {}", escaped(shared));
    }
    fs::write(&path, text).map_err(with_path(&path))?;
    differences(&ours(), &published).iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn with_path<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// The schemas of all documents in these files and folders.
fn published(mut paths: Vec<PathBuf>) -> Outcome<Schemas> {
    if paths.is_empty() {
        return Err("usage: openapi_descriptions DOCUMENTS: see the top of this file".to_owned());
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

/// Descriptions of the types of the field table, and of all that they refer to.
fn texts(published: &Schemas) -> Texts {
    let mut open: BTreeSet<String> =
        schema::all().filter(|ty| !is_list(ty)).map(Type::openapi_name).collect();
    open.extend(BODIES.map(str::to_owned));
    let mut texts = Texts::new();
    while let Some(name) = open.pop_first() {
        let Some(schema) = published.get(&name).filter(|_| !texts.contains_key(&name)) else { continue };
        let mut own = BTreeMap::new();
        let mut add = |member: &str, schema: &Value| {
            let text = schema.get("description").and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(|text| own.insert(member.to_owned(), text.to_owned()));
        };
        add("", schema);
        for (member, property) in schema["properties"].as_object().into_iter().flatten() {
            add(member, property);
            open.extend(referred(property));
        }
        texts.insert(name, own);
    }
    texts
}

/// Schema to which a property, or the elements of its list or map, refer.
fn referred(property: &Value) -> Option<String> {
    let mut at = Some(property);
    while let Some(schema) = at {
        let reference =
            schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
        if let Some(name) = reference.and_then(|reference| reference.strip_prefix(REFERENCE)) {
            return Some(name.to_owned());
        }
        at = schema.get("items").or_else(|| schema.get("additionalProperties"));
    }
    None
}

/// Names of the texts that several members have, by text.
fn shared(texts: &Texts) -> BTreeMap<String, String> {
    let mut uses: BTreeMap<&String, (&str, u32)> = BTreeMap::new();
    for (member, text) in texts.values().flatten() {
        uses.entry(text).or_insert((member, 0)).1 += 1;
    }
    let (mut names, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for (text, (member, _)) in uses.iter().filter(|(text, (_, uses))| *uses > 1 && text.len() > SHARED_LENGTH)
    {
        let member = if member.is_empty() { "type" } else { member };
        let numbered = (2..).map(|number| format!("{member}{number}"));
        let name = std::iter::once((*member).to_owned()).chain(numbered).find(|name| !taken.contains(name));
        let name = name.expect("numbers do not end");
        taken.insert(name.clone());
        names.insert((*text).clone(), name);
    }
    names
}

/// Lines of these types, without their package.
fn lines(texts: &Texts, shared: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    for (name, members) in texts.iter().filter(|(_, members)| !members.is_empty()) {
        let bare = name.rsplit('.').next().unwrap_or_default();
        let line = |text: &String| shared.get(text).map_or_else(|| escaped(text), |name| format!("${name}"));
        let own = members.get("").map(|text| format!(" {}", line(text))).unwrap_or_default();
        let _ = writeln!(out, "{bare}{own}");
        for (member, text) in members.iter().filter(|(member, _)| !member.is_empty()) {
            let _ = writeln!(out, "  {member} {}", line(text));
        }
    }
    out
}

/// Writes the types that are in no table, by package.
fn write_unlisted(path: &Path, texts: &Texts, shared: &BTreeMap<String, String>) -> Outcome<()> {
    let prefix =
        |name: &String| name.rsplit_once('.').map(|(prefix, _)| prefix.to_owned()).unwrap_or_default();
    let prefixes: BTreeSet<String> = texts.keys().map(prefix).collect();
    let mut text = HEADER.to_owned();
    for of in prefixes {
        let own: Texts = texts
            .iter()
            .filter(|(name, _)| prefix(name) == of)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let _ = write!(text, "@ {of}\n{}", lines(&own, shared));
    }
    fs::write(path, text).map_err(with_path(path))
}

/// The text on one line.
fn escaped(text: &str) -> String {
    let mut out = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t");
    if let Some(rest) = out.strip_prefix(' ') {
        out = format!("\\s{rest}");
    } else if out.starts_with('$') {
        out.insert(0, '\\');
    }
    match out.strip_suffix(' ') {
        Some(rest) => format!("{rest}\\s"),
        None => out,
    }
}

/// The schemas of this crate's documents.
fn ours() -> Schemas {
    let mut resources: BTreeMap<(&str, &str), Vec<ResourceDoc>> = BTreeMap::new();
    for row in RESOURCES.iter().chain(OPT_IN.iter().map(|kind| &kind.row)) {
        resources.entry((row.group, row.version)).or_default().push(row.into());
    }
    let scopes = resources.into_iter().map(|((group, version), docs)| {
        let gv = GroupVersion { group: group.to_owned(), version: version.to_owned() };
        DocumentScope::Resources(gv, docs)
    });
    let mut schemas = Schemas::new();
    for scope in scopes.chain([DocumentScope::Groups, DocumentScope::Versions, DocumentScope::Version]) {
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
