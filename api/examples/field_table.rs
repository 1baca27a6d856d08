//! Generates the field table (`api/schema/*.tbl`) from the published Go modules of a Kubernetes version:
//! `k8s.io/api` and its sibling modules in one directory, such as `staging/src/k8s.io` of the release.
//!
//! Run `cargo run -p kstore-api --example field_table -- staging/src/k8s.io`, and review `git diff
//! api/schema`.
//!
//! The OpenAPI and protobuf documents, generated from the same files, do not suffice: neither says which
//! members are pointers and which are omitted when empty. The result has the types of the current tables, the
//! new kinds of their groups, and all types that those refer to. `src/schema/mod.rs` documents the notation.
//! Defaults and enumerations (`facts.txt`) are not generated.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

type Outcome<T> = Result<T, String>;

/// Package of the types that every group uses.
const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
const EXTENSIONS: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";

/// Structs that are scalars in the table, by package and name.
const SCALARS: &[(&str, &str, &str)] = &[
    (META, "Time", "time"),
    (META, "MicroTime", "microtime"),
    (META, "FieldsV1", "fields"),
    ("k8s.io/apimachinery/pkg/api/resource", "Quantity", "quantity"),
    ("k8s.io/apimachinery/pkg/util/intstr", "IntOrString", "intstr"),
    ("k8s.io/apimachinery/pkg/runtime", "RawExtension", "raw"),
    (EXTENSIONS, "JSON", "json"),
    (EXTENSIONS, "JSONSchemaPropsOrArray", "schemaorlist"),
    (EXTENSIONS, "JSONSchemaPropsOrBool", "schemaorbool"),
    (EXTENSIONS, "JSONSchemaPropsOrStringArray", "schemaorstrings"),
];

/// Basic types of Go.
const BASIC: &[(&str, &str)] =
    &[("string", "str"), ("bool", "bool"), ("int32", "i32"), ("int64", "i64"), ("float64", "f64")];

/// Packages whose types are all strings.
const STRINGS: &[&str] = &["k8s.io/apimachinery/pkg/types"];

/// Import path of a package, and name of a type in it.
type Name = (String, String);

/// Type as declared in Go.
struct GoType {
    /// Comment lines directly above the type, and those of the comment before.
    comments: Vec<String>,
    body: Body,
}

enum Body {
    Struct(Vec<GoField>),
    /// Another type under a new name.
    Named(String),
}

struct GoField {
    comments: Vec<String>,
    is_embedded: bool,
    /// Type; its package is the import path followed by `#`.
    ty: String,
    tags: String,
}

/// All parsed types, by package and name.
struct Source {
    types: BTreeMap<Name, GoType>,
    /// Short names of the packages that have a table, by import path.
    shorts: BTreeMap<String, String>,
}

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1).map(PathBuf::from);
    let modules = arguments.next().ok_or("usage: field_table MODULES [TABLES]: see the top of this file")?;
    let tables = arguments.next().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("schema"));
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(&tables).map_err(with_path(&tables))? {
        let path = entry.map_err(with_path(&tables))?.path();
        if path.extension().is_some_and(|extension| extension == "tbl") {
            texts.insert(path.clone(), fs::read_to_string(&path).map_err(with_path(&path))?);
        }
    }
    let heads = texts.values().map(|text| Head::of(text)).collect::<Outcome<Vec<_>>>()?;
    let mut source = Source { types: BTreeMap::new(), shorts: BTreeMap::new() };
    for head in &heads {
        source.shorts.insert(head.path.clone(), head.short.clone());
        source.read(&modules, &head.path)?;
    }
    let wanted = source.wanted(&heads)?;
    for ((path, text), head) in texts.iter().zip(&heads) {
        let table = source.table(text, head, &wanted)?;
        fs::write(path, table).map_err(with_path(path))?;
    }
    Ok(())
}

fn with_path<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// Header of a current table, with its types.
struct Head {
    short: String,
    /// Import path of the package.
    path: String,
    /// Types in the table.
    types: BTreeSet<String>,
}

impl Head {
    fn of(text: &str) -> Outcome<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("@ ")).ok_or("a table without `@`")?;
        let mut words = line.split(' ');
        let short = words.next().unwrap_or_default().to_owned();
        let openapi =
            words.next().and_then(|name| name.strip_prefix("io.k8s.")).ok_or("no OpenAPI prefix")?;
        let lines = text.lines().filter(|line| !line.starts_with(['#', '@', ' ']) && !line.is_empty());
        let types = lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        Ok(Self { short, path: format!("k8s.io/{}", openapi.replace('.', "/")), types })
    }
}

impl Source {
    /// Parses the files of a package that declare its types.
    fn read(&mut self, modules: &Path, package: &str) -> Outcome<()> {
        let folder = modules.join(package.trim_start_matches("k8s.io/"));
        for entry in fs::read_dir(&folder).map_err(with_path(&folder))? {
            let path = entry.map_err(with_path(&folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("types") && name.ends_with(".go") && !name.ends_with("_generated.go") {
                self.read_file(package, &fs::read_to_string(&path).map_err(with_path(&path))?);
            }
        }
        Ok(())
    }

    fn read_file(&mut self, package: &str, text: &str) {
        let imports = imports(text);
        let (mut comments, mut before): (Vec<String>, Vec<String>) = Default::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(comment) = line.strip_prefix("//") {
                comments.push(comment.trim().to_owned());
                continue;
            }
            if line.trim().is_empty() {
                before = std::mem::take(&mut comments);
                continue;
            }
            let mut comments: Vec<_> =
                std::mem::take(&mut before).into_iter().chain(comments.drain(..)).collect();
            let Some((name, rest)) = line.strip_prefix("type ").and_then(|rest| rest.split_once(' ')) else {
                continue;
            };
            let body = match rest.trim() {
                "struct {" => Body::Struct(fields(&mut lines, package, &imports)),
                "struct{}" | "struct {}" => Body::Struct(Vec::new()),
                other => Body::Named(qualified(other.trim_start_matches("= "), package, &imports)),
            };
            comments.shrink_to_fit();
            self.types.insert((package.to_owned(), name.to_owned()), GoType { comments, body });
        }
    }

    /// Types for the new tables: existing ones that Kubernetes still has, new kinds of the groups, and all
    /// types they refer to.
    fn wanted(&self, heads: &[Head]) -> Outcome<BTreeSet<Name>> {
        let known: BTreeSet<Name> = heads
            .iter()
            .flat_map(|head| head.types.iter().map(|name| (head.path.clone(), name.clone())))
            .collect();
        let is_new_kind = |name: &Name, ty: &GoType| {
            // Kinds without clients are parts of requests or internal.
            name.0 != META && ty.is_kind() && ty.comments.iter().any(|comment| comment == "+genclient")
        };
        let mut open: Vec<Name> =
            known.iter().filter(|name| self.types.contains_key(*name)).cloned().collect();
        open.extend(
            self.types.iter().filter(|(name, ty)| is_new_kind(name, ty)).map(|(name, _)| name.clone()),
        );
        let mut wanted = BTreeSet::new();
        while let Some(name) = open.pop() {
            if !wanted.insert(name.clone()) {
                continue;
            }
            let Some(Body::Struct(fields)) = self.types.get(&name).map(|ty| &ty.body) else { continue };
            for field in fields.iter().filter(|field| field.json().is_some() && !field.is_type_meta()) {
                open.extend(self.elem(&field.ty)?.1);
            }
        }
        Ok(wanted)
    }

    /// Type in the notation of the table, with the struct it names.
    fn elem(&self, ty: &str) -> Outcome<(String, Option<Name>)> {
        if ty == "[]byte" {
            return Ok(("bytes".to_owned(), None));
        }
        for (prefix, word) in [("*", "*"), ("[]", "[]")] {
            if let Some(rest) = ty.strip_prefix(prefix) {
                let (elem, name) = self.elem(rest)?;
                return Ok((format!("{word}{elem}"), name));
            }
        }
        if let Some((_, value)) = ty.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            let (elem, name) = self.elem(value)?;
            return Ok((format!("{{}}{elem}"), name));
        }
        let Some((package, name)) = ty.split_once('#') else {
            let found = BASIC.iter().find(|(go, _)| *go == ty);
            return found.map(|(_, word)| ((*word).to_owned(), None)).ok_or(format!("no word for {ty}"));
        };
        if let Some((.., word)) = SCALARS.iter().find(|(of, scalar, _)| (*of, *scalar) == (package, name)) {
            return Ok(((*word).to_owned(), None));
        }
        if STRINGS.contains(&package) {
            return Ok(("str".to_owned(), None));
        }
        let name = (package.to_owned(), name.to_owned());
        match self.types.get(&name).map(|ty| &ty.body) {
            // A named list is a message of its own in protobuf; the API has such lists only of strings.
            Some(Body::Named(of)) if of == "[]string" => Ok(("items".to_owned(), None)),
            Some(Body::Named(of)) => self.elem(of),
            Some(Body::Struct(_)) => Ok((name.1.clone(), Some(name))),
            None => Err(format!("{ty} is in none of the packages")),
        }
    }

    /// The new table of a package.
    fn table(&self, today: &str, head: &Head, wanted: &BTreeSet<Name>) -> Outcome<String> {
        let mut out = String::new();
        for line in today.lines().take_while(|line| line.starts_with(['#', '@'])) {
            let _ = writeln!(out, "{line}");
        }
        for name in wanted.iter().filter(|(package, _)| *package == head.path) {
            let Some(GoType { comments, body: Body::Struct(fields) }) = self.types.get(name) else {
                continue;
            };
            let kind = if self.types[name].is_kind() { " kind" } else { "" };
            let atomic = if marks(comments, "structType").contains(&"atomic") { " atomic" } else { "" };
            let _ = writeln!(out, "{}{kind}{atomic}", name.1);
            for field in fields.iter().filter(|field| !field.is_type_meta()) {
                if let Some(line) = self.line(name, field).map_err(|error| format!("{}: {error}", name.1))? {
                    let _ = writeln!(out, "  {line}");
                }
            }
        }
        Ok(out)
    }

    /// A member in the notation of the table; `None` for members outside JSON.
    fn line(&self, owner: &Name, field: &GoField) -> Outcome<Option<String>> {
        let Some(json) = field.json() else { return Ok(None) };
        let mut words = json.split(',');
        let name = words.next().unwrap_or_default();
        let options: Vec<&str> = words.collect();
        let number = field.tag("protobuf").and_then(|tag| tag.split(',').nth(1)).unwrap_or("0");
        let (mut elem, of) = self.elem(&field.ty)?;
        if let Some((package, bare)) = of.filter(|(package, _)| *package != owner.0) {
            let short = self.shorts.get(&package).ok_or(format!("no table for {package}"))?;
            elem = format!("{}{short}.{bare}", &elem[..elem.len() - bare.len()]);
        }
        if field.is_embedded && name.is_empty() {
            return Ok(Some(format!("^ {number} {elem}")));
        }
        let mut line = format!("{name} {number} {elem}");
        let is_list_of_kinds = name == "items" && owner.1.ends_with("List") && self.types[owner].is_kind();
        let mut flag = |text: String| line += &format!(" {text}");
        if options.contains(&"omitempty") {
            flag("?".to_owned());
        }
        if options.contains(&"omitzero") {
            flag("z".to_owned());
        }
        if field.is_required(options.contains(&"omitempty")) && !is_list_of_kinds {
            flag("!".to_owned());
        }
        for (tag, word) in [("patchStrategy", "patch"), ("patchMergeKey", "key")] {
            field.tag(tag).into_iter().for_each(|value| flag(format!("{word}={value}")));
        }
        marks(&field.comments, "listType").first().into_iter().for_each(|list| flag(format!("list={list}")));
        let keys = marks(&field.comments, "listMapKey");
        if !keys.is_empty() {
            flag(format!("by={}", keys.join(",")));
        }
        if ["structType", "mapType"].iter().any(|mark| marks(&field.comments, mark).contains(&"atomic")) {
            flag("atomic".to_owned());
        }
        Ok(Some(line))
    }
}

impl GoType {
    /// Whether the type has `apiVersion` and `kind`.
    fn is_kind(&self) -> bool {
        matches!(&self.body, Body::Struct(fields) if fields.iter().any(GoField::is_type_meta))
    }
}

impl GoField {
    fn is_type_meta(&self) -> bool {
        self.is_embedded && self.ty == format!("{META}#TypeMeta")
    }

    fn tag(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.tags.split_once(&format!("{name}:\""))?;
        rest.split('"').next()
    }

    /// JSON part of the tag; `None` for members outside JSON.
    fn json(&self) -> Option<&str> {
        self.tag("json").filter(|json| *json != "-")
    }

    /// Whether OpenAPI lists the member as required, by the rules of Kubernetes' generator.
    fn is_required(&self, omit_empty: bool) -> bool {
        let is_marked = |mark: &str| self.comments.iter().any(|comment| comment == mark);
        is_marked("+required") || !(is_marked("+optional") || omit_empty)
    }
}

/// Values of `+name=value` in comments.
fn marks<'a>(comments: &'a [String], name: &str) -> Vec<&'a str> {
    let value = |comment: &'a String| comment.strip_prefix('+')?.strip_prefix(name)?.strip_prefix('=');
    comments.iter().filter_map(value).collect()
}

/// Import paths of a file, by local name.
fn imports(text: &str) -> BTreeMap<String, String> {
    let block = text
        .split_once("import (")
        .and_then(|(_, rest)| rest.split_once("\n)"))
        .map_or("", |(block, _)| block);
    let single = text.lines().filter_map(|line| line.strip_prefix("import "));
    let lines = block.lines().chain(single);
    let import = |line: &str| {
        let (alias, path) = line.trim().split_once('"')?;
        let path = path.trim_end_matches('"');
        let last = path.rsplit('/').next().unwrap_or_default();
        let name = if alias.trim().is_empty() { last } else { alias.trim() };
        Some((name.to_owned(), path.to_owned()))
    };
    lines.filter_map(import).collect()
}

/// A type with its package's import path in place of the local name.
fn qualified(ty: &str, package: &str, imports: &BTreeMap<String, String>) -> String {
    for prefix in ["*", "[]"] {
        if let Some(rest) = ty.strip_prefix(prefix) {
            return match ty {
                "[]byte" => ty.to_owned(),
                _ => format!("{prefix}{}", qualified(rest, package, imports)),
            };
        }
    }
    if let Some((key, value)) = ty.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[{key}]{}", qualified(value, package, imports));
    }
    match ty.split_once('.') {
        Some((alias, name)) => {
            format!("{}#{name}", imports.get(alias).map_or(alias, String::as_str))
        }
        None if BASIC.iter().any(|(go, _)| *go == ty) => ty.to_owned(),
        None => format!("{package}#{ty}"),
    }
}

/// Members of a struct, up to the closing line.
fn fields<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    package: &str,
    imports: &BTreeMap<String, String>,
) -> Vec<GoField> {
    let (mut fields, mut comments) = (Vec::new(), Vec::new());
    for line in lines.by_ref().take_while(|line| *line != "}") {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("//") {
            comments.push(comment.trim().to_owned());
            continue;
        }
        let (declared, tags) = line.split_once('`').unwrap_or((line, ""));
        let declared = declared.split("//").next().unwrap_or_default();
        let words: Vec<&str> = declared.split_whitespace().collect();
        let comments = std::mem::take(&mut comments);
        let (is_embedded, ty) = match words[..] {
            [ty] => (true, ty),
            [_, ty] => (false, ty),
            _ => continue,
        };
        let ty = qualified(ty, package, imports);
        fields.push(GoField { comments, is_embedded, ty, tags: tags.to_owned() });
    }
    fields
}
