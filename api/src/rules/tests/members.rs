//! Checks the members that the code of validation, defaults, preparation, conversion and tables names against the field
//! table. The compiler does not see a wrong letter in `spec["replicas"]`, which then reads null.
//!
//! The statics of this module name the functions of each kind, so the kinds of an item are known: those whose statics
//! reach it. What it names must be a member of a type below one of them: each chain of members, field paths in errors
//! (`Path::new`, `child`), and literal arguments of the helpers that take members. An item that no static reaches, such
//! as the generic part of a verb, may name the members of all kinds.

use super::sources::{Sources, split_outside_brackets};
use crate::kind::{OPT_IN, RESOURCES, every, every_of};
use crate::resource::{FieldRule, Reset, Resource};
use crate::schema::{Elem, Shape, Type};
use crate::version::Minor;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Modules whose code works on objects of built-in kinds.
const MODULES: [&str; 7] = ["check", "convert", "defaults", "rules", "strategy", "table", "validate"];

/// Fewest literals that the check must find.
const FEWEST: usize = 3_000;

/// Literals that are no members of the types: file, literal, reason.
const OTHERS: [(&str, &str, &str); 31] = [
    ("convert/autoscaler.rs", "behavior", "a member of v2, taken by the conversion to v1"),
    ("convert/autoscaler.rs", "conditions", "a member of v2, taken by the conversion to v1"),
    ("convert/autoscaler.rs", "currentMetrics", "a member of v2, taken by the conversion to v1"),
    ("convert/autoscaler.rs", "metrics", "a member of v2, taken by the conversion to v1"),
    ("convert/pod_group.rs", "all", "a member of v1beta1, taken by the conversion to v1alpha2"),
    (
        "convert/pod_group.rs",
        "podGroupTemplateName",
        "a member of v1alpha2, taken by the conversion to v1beta1",
    ),
    (
        "convert/pod_group.rs",
        "podGroupTemplateRef",
        "a member of v1alpha2, taken by the conversion to v1beta1",
    ),
    ("convert/pod_group.rs", "templateName", "a member of v1beta1, taken by the conversion to v1alpha2"),
    ("convert/pod_group.rs", "workload", "a member of v1alpha2, taken by the conversion to v1beta1"),
    ("convert/pod_group.rs", "workloadRef", "a member of v1beta1, taken by the conversion to v1alpha2"),
    ("defaults/pod/mod.rs", "v1", "a value"),
    ("defaults/workload.rs", "v1", "a value"),
    ("validate/config.rs", "password", "a key of the data"),
    ("validate/config.rs", "tls.crt", "a key of the data"),
    ("validate/config.rs", "tls.key", "a key of the data"),
    ("validate/config.rs", "username", "a key of the data"),
    ("validate/groups/coordination.rs", "strategy.strategy", "Kubernetes' path in the message"),
    ("validate/groups/events.rs", "involvedObject.namespace", "Kubernetes' path in the message"),
    ("validate/groups/scheduling.rs", "overhead.limits", "Kubernetes' path in the message"),
    ("validate/groups/storage.rs", "attachedRequired", "Kubernetes' path in the message"),
    ("validate/namespace.rs", "status.Phase", "Kubernetes' path in the message"),
    ("validate/node.rs", "metadata.taints", "Kubernetes' path in the message"),
    ("validate/pod/spread.rs", "{topologyKey, whenUnsatisfiable}", "Kubernetes' path in the message"),
    ("validate/pod/status.rs", "Type", "Kubernetes' path in the message"),
    ("validate/pod/volume/projected.rs", "clusterTrustBundlePEM", "Kubernetes' path in the message"),
    ("validate/pod/volume/remote.rs", "initiatorname", "Kubernetes' path in the message"),
    ("validate/service/mod.rs", "LoadBalancerSourceRanges", "Kubernetes' path in the message"),
    ("validate/volume.rs", "iscsi.targetportal", "Kubernetes' path in the message"),
    ("validate/volume.rs", "persistentvolumesource", "Kubernetes' path in the message"),
    ("validate/volume.rs", "storage", "a resource"),
    ("validate/warning/workload.rs", "Spec", "Kubernetes' path in the message"),
];

static CHAIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:\b[a-z_]\w*|[)\]?])((?:\[(?:"[A-Za-z0-9]+"|[a-z_*&][\w.*]*)\])+)"#).unwrap()
});
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"\[("?)([^\]"]+)"?\]"#).unwrap());
static CHILDREN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?:\.child\("[^"]+"\)(?:\s*\.(?:index|key)\([^()]*\))?\s*)+"#).unwrap());
static CHILD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"\.child\("([^"]+)"\)"#).unwrap());
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"Path::new\("([^"]+)"\)"#).unwrap());
/// Helpers whose literal arguments are members, or dotted paths of them.
static HELPER: LazyLock<Regex> = LazyLock::new(|| {
    let names = "at|contains_key|copy|copy_metadata|default|each|equal_except|get|get_mut|immutable|items|make|member|\
                 need|none_negative|put|remove|remove_at|take|unique";
    Regex::new(&format!(r"\b(?:{names})\(")).unwrap()
});
static LITERAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"^(?:"[^"]*"|&\[(?:"[^"]*",?\s*)*\])$"#).unwrap());
static MEMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""([a-z][A-Za-z0-9]*(?:\.[a-z][A-Za-z0-9]*)*)""#).unwrap());

/// The type of a value that a chain of members reaches.
#[derive(Clone, Copy, PartialEq)]
enum ValueType {
    /// JSON without a type in the table.
    Any,
    Of(Shape, Elem),
}

/// One member of a chain.
enum Link<'c> {
    Member(&'c str),
    /// An index in a list, or a member in a variable.
    Variable,
}

impl ValueType {
    fn follow(self, link: &Link<'_>) -> Vec<Self> {
        let one = |elem| vec![Self::Of(Shape::One, elem)];
        match (self, link) {
            (Self::Any, _) => vec![Self::Any],
            (Self::Of(Shape::Map, elem), _) | (Self::Of(Shape::List, elem), Link::Variable) => one(elem),
            (Self::Of(Shape::List, _), Link::Member(_)) => Vec::new(),
            (Self::Of(Shape::One, Elem::Struct(id)), Link::Member(name)) => {
                let field = id.get().field(name);
                field.map(|field| Self::Of(field.shape, field.elem)).into_iter().collect()
            }
            (Self::Of(Shape::One, Elem::Struct(id)), Link::Variable) => {
                id.get().fields.iter().map(|field| Self::Of(field.shape, field.elem)).collect()
            }
            (Self::Of(Shape::One, elem), _) => match elem {
                Elem::Raw | Elem::Json | Elem::FieldsV1 => vec![Self::Any],
                Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => vec![Self::Any],
                Elem::Items if matches!(link, Link::Variable) => one(Elem::String),
                _ => Vec::new(),
            },
        }
    }

    /// The type of the items, for a list: field paths name the members of items below the list.
    fn of_items(self) -> Self {
        match self {
            Self::Of(Shape::List, elem) => Self::Of(Shape::One, elem),
            other => other,
        }
    }
}

/// Whether a chain of members exists in a value of one of the types.
fn exists(starts: &[ValueType], links: &[Link<'_>], is_path: bool) -> bool {
    let mut current = starts.to_vec();
    for link in links {
        let mut next: Vec<ValueType> = Vec::new();
        for value in current {
            let value = if is_path { value.of_items() } else { value };
            let new = value.follow(link).into_iter().filter(|new| !next.contains(new)).collect::<Vec<_>>();
            next.extend(new);
        }
        current = next;
    }
    !current.is_empty()
}

/// All struct types below a type, itself included.
fn types_below(root: &'static Type, found: &mut BTreeMap<String, &'static Type>) {
    if found.insert(root.openapi_name(), root).is_none() {
        root.fields.iter().filter_map(|field| field.struct_type()).for_each(|ty| types_below(ty, found));
    }
}

/// Values from which the chains of an item can start: those of the types below its kinds.
fn starts<'k>(kinds: impl IntoIterator<Item = &'k &'static Resource>) -> Vec<ValueType> {
    let mut types = BTreeMap::new();
    for kind in kinds {
        types_below(root(kind), &mut types);
    }
    // An element of the table names its type by an index, which only fields have.
    let below = types.values().flat_map(|ty| ty.fields.iter());
    let mut starts = Vec::new();
    for field in below {
        let value = ValueType::Of(Shape::One, field.elem);
        if matches!(field.elem, Elem::Struct(_)) && !starts.contains(&value) {
            starts.push(value);
        }
    }
    starts
}

fn root(kind: &Resource) -> &'static Type {
    kind.object_type().expect("the table has every kind")
}

/// A literal that stands for members.
struct Named {
    line: usize,
    text: String,
    exists: bool,
}

/// The members that the text of an item names; `line` is its first line.
fn named(text: &str, line: usize, starts: &Starts) -> Vec<Named> {
    let mut found = Vec::new();
    let mut add = |at: usize, name: &str, exists: bool| {
        let line = line + text[..at].matches('\n').count();
        found.push(Named { line, text: name.to_owned(), exists });
    };
    for chain in CHAIN.captures_iter(text) {
        let links: Vec<_> =
            LINK.captures_iter(&chain[1]).map(|link| (link[1].is_empty(), link[2].to_owned())).collect();
        let links: Vec<_> = links
            .iter()
            .map(|(is_variable, name)| if *is_variable { Link::Variable } else { Link::Member(name) })
            .collect();
        // The shortest part that does not exist names the wrong member.
        for end in 1..=links.len() {
            let Link::Member(name) = &links[end - 1] else { continue };
            let exists = starts.exist(&links[..end], false);
            add(chain.get(0).unwrap().start(), name, exists);
            if !exists {
                break;
            }
        }
    }
    for path in PATH.captures_iter(text) {
        add(path.get(0).unwrap().start(), &path[1], starts.has_path(&path[1]));
    }
    for children in CHILDREN.find_iter(text) {
        let names: Vec<_> = CHILD.captures_iter(children.as_str()).map(|child| child[1].to_owned()).collect();
        let links: Vec<_> = names.iter().flat_map(|name| name.split('.')).map(Link::Member).collect();
        add(children.start(), &names.join("."), starts.exist(&links, true));
    }
    for helper in HELPER.find_iter(text) {
        let arguments = split_outside_brackets(&text[helper.end()..]);
        for argument in arguments.into_iter().filter(|argument| LITERAL.is_match(argument)) {
            for member in MEMBER.captures_iter(argument) {
                add(helper.start(), &member[1], starts.has_path(&member[1]));
            }
        }
    }
    found
}

/// The types of an item's kinds: the kinds themselves and what is below them.
struct Starts {
    roots: Vec<&'static Type>,
    below: Vec<ValueType>,
}

impl Starts {
    fn of<'k>(kinds: impl IntoIterator<Item = &'k &'static Resource> + Clone) -> Self {
        Self { roots: kinds.clone().into_iter().map(|kind| root(kind)).collect(), below: starts(kinds) }
    }

    fn exist(&self, links: &[Link<'_>], is_path: bool) -> bool {
        let from_root = |root: &&'static Type| match links {
            [Link::Member(name), rest @ ..] => root
                .field(name)
                .is_some_and(|field| exists(&[ValueType::Of(field.shape, field.elem)], rest, is_path)),
            [Link::Variable, ..] => true,
            [] => true,
        };
        exists(&self.below, links, is_path) || self.roots.iter().any(from_root)
    }

    fn has_path(&self, path: &str) -> bool {
        self.exist(&path.split('.').map(Link::Member).collect::<Vec<_>>(), true)
    }
}

/// The static of each row of the table of kinds: module of `rules`, name, and the row.
fn statics(table: &str) -> Vec<(String, String, &'static Resource)> {
    let group =
        Regex::new(r#"group!\(\s*(\w+)\s*=\s*"([^"]*)",\s*"[^"]*",\s*"([^"]*)",\s*(\w+)\s*\)"#).unwrap();
    let row = Regex::new(r#"\b(\w+)!\(\s*"([^"]+)",\s*"[^"]+",\s*"([^"]+)",\s*(\w+)\s*,?\s*\)"#).unwrap();
    let groups: BTreeMap<_, _> = group
        .captures_iter(table)
        .map(|group| (group[1].to_owned(), (group[2].to_owned(), group[3].to_owned(), group[4].to_owned())))
        .collect();
    let rows = row.captures_iter(table).filter_map(|row| {
        let (group, version, module) = groups.get(&row[1])?;
        let is_row =
            |kind: &&'static Resource| kind.group == group && kind.version == version && kind.kind == &row[3];
        // The row of the newest version that has the kind.
        let found = Minor::ALL.into_iter().rev().find_map(|minor| every_of(minor).find(is_row));
        Some((module.clone(), row[4].to_owned(), found.expect("a row of the table")))
    });
    rows.collect()
}

/// The kinds whose statics reach each item, as indices of `kinds`.
fn kinds_of_items(sources: &Sources, kinds: &[(String, String, &'static Resource)]) -> Vec<BTreeSet<usize>> {
    let mut of_items = vec![BTreeSet::new(); sources.items.len()];
    for (at, (module, name, _)) in kinds.iter().enumerate() {
        for item in sources.reached_from(&format!("rules/{module}.rs"), name) {
            of_items[item].insert(at);
        }
    }
    of_items
}

/// Checks the sources; returns how many literals it has found, and those that are no members with file and line.
fn check(sources: &Sources, kinds: &[(String, String, &'static Resource)]) -> (usize, Vec<(String, Named)>) {
    let mut of_kinds: BTreeMap<BTreeSet<usize>, Starts> = BTreeMap::new();
    let (mut count, mut wrong) = (0, Vec::new());
    for (item, own) in sources.items.iter().zip(kinds_of_items(sources, kinds)) {
        let starts = of_kinds.entry(own.clone()).or_insert_with(|| {
            let is_own = |at: &usize| own.is_empty() || own.contains(at);
            let rows: Vec<_> = (0..kinds.len()).filter(is_own).map(|at| kinds[at].2).collect();
            Starts::of(&rows)
        });
        let named = named(&item.text, item.line, starts);
        count += named.len();
        wrong.extend(named.into_iter().filter(|named| !named.exists).map(|named| (item.file.clone(), named)));
    }
    (count, wrong)
}

const TABLES: [&str; 2] =
    [include_str!("../../kind/table/mod.rs"), include_str!("../../kind/table/opt_in.rs")];

#[test]
fn members_that_the_rules_of_a_kind_name_are_in_the_field_table() {
    let kinds = statics(&TABLES.concat());
    assert_eq!(kinds.len(), RESOURCES.len() + OPT_IN.len(), "every row has its static");
    let (count, wrong) = check(&Sources::of_modules(&MODULES), &kinds);
    assert!(count >= FEWEST, "only {count} literals");
    let mut unused: BTreeSet<_> = OTHERS.iter().map(|(file, literal, _)| (*file, *literal)).collect();
    let mut unknown = Vec::new();
    for (file, named) in &wrong {
        let key = (file.as_str(), named.text.as_str());
        match OTHERS.iter().any(|(file, literal, _)| (*file, *literal) == key) {
            true => {
                unused.remove(&key);
            }
            false => unknown.push(format!("api/src/{file}:{}: {}", named.line, named.text)),
        }
    }
    assert!(unknown.is_empty(), "no members of the field table:\n{}", unknown.join("\n"));
    assert!(unused.is_empty(), "members by now: {unused:?}");
}

/// The sources of one kind, whose static is `rules/apps.rs: DEPLOYMENT`.
fn wrong_in(code: &str) -> Vec<String> {
    let mut sources = Sources::default();
    sources.add(
        "rules/apps.rs",
        "use crate::validate::workload;\nstatic DEPLOYMENT: R = R { content: workload::content };\n",
    );
    sources.add("validate/workload/mod.rs", code);
    let mut kinds = statics(&TABLES.concat());
    kinds.retain(|(_, name, _)| matches!(name.as_str(), "DEPLOYMENT" | "POD"));
    let (_, wrong) = check(&sources, &kinds);
    wrong.into_iter().map(|(file, named)| format!("{file}:{}: {}", named.line, named.text)).collect()
}

#[test]
fn misspelt_members_are_found() {
    let code = "use super::pod;\nfn content(object: &Value) {\n    let spec = &object[\"spec\"];\n    int(&spec[\"replicsa\"]);\n    \
                int(&object[\"spec\"][\"template\"][\"replicas\"]);\n    let _ = spec[\"selector\"][\"matchLabels\"][\"any\"];\n    \
                let _ = spec[\"template\"][\"spec\"][\"containers\"][at][\"image\"];\n}\n";
    assert_eq!(
        wrong_in(code),
        ["validate/workload/mod.rs:4: replicsa", "validate/workload/mod.rs:5: replicas"],
        "a wrong letter, and a member of another type"
    );
}

#[test]
fn members_of_other_kinds_and_wrong_field_paths_are_found() {
    let code = "fn content(object: &Value) {\n    let _ = object[\"nodeName\"];\n    let _ = object[\"podIPs\"];\n    \
                let path = Path::new(\"spec\").child(\"strategy\").child(\"rollingUpdat\");\n    \
                each(path, spec, \"container\", |_| {});\n    helper(object);\n}\nfn helper(o: &Value) {\n    \
                immutable(errors, \"spec.selectors\", new, old);\n}\nfn unreached(o: &Value) {\n    \
                let _ = o[\"podIPs\"];\n    let _ = o[\"podips\"];\n}\n";
    let expected = [
        "validate/workload/mod.rs:3: podIPs",
        "validate/workload/mod.rs:4: strategy.rollingUpdat",
        "validate/workload/mod.rs:5: container",
        "validate/workload/mod.rs:9: spec.selectors",
        "validate/workload/mod.rs:13: podips",
    ];
    assert_eq!(wrong_in(code), expected);
}

#[test]
fn paths_in_the_rules_of_a_kind_exist_in_its_type() {
    for row in every().filter(|row| row.is_stored()) {
        let types = [Starts::of(&[row]), Starts::of(&[row.storage_row()])];
        let at = |starts: &Starts, path: &[&str]| {
            let links: Vec<_> = path.iter().map(|name| Link::Member(name)).collect();
            let root = starts.roots[0].field(path[0]);
            root.is_some_and(|field| exists(&[ValueType::Of(field.shape, field.elem)], &links[1..], true))
        };
        let exists = |path: &[&str]| types.iter().any(|starts| at(starts, path));
        if let Some(path) = row.rules.pod_template {
            assert!(path.is_empty() || exists(path), "{}: {path:?}", row.plural);
        }
        for (label, rule) in row.rules.fields.values {
            let is_right = match rule {
                FieldRule::At(path) | FieldRule::Or(path, _) => exists(path),
                FieldRule::Either(path, other) => exists(path) || exists(other),
                FieldRule::By(_, paths) => paths.iter().any(|path| exists(path)),
            };
            assert!(is_right, "{} {label}: {rule:?}", row.plural);
        }
        for rules in row.rules.subresources {
            let Reset::Fields(names) = rules.reset else { continue };
            for name in names.iter().filter(|name| **name != "spec") {
                assert!(
                    exists(&name.split('.').collect::<Vec<_>>()),
                    "{} {}: {name}",
                    row.plural,
                    rules.name
                );
            }
        }
    }
}
