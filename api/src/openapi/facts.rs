//! Facts about members that are not in the field table: default values, enumerations and unions. Only
//! documents use them; `defaults` sets the values of objects, and `validate` checks them.
//!
//! # Notation of `schema/facts.txt`
//!
//! ```text
//! @ core/v1                                 the lines after it are about types of this file of the field table
//! $signals SIGABRT,SIGALRM                  a list of values with a name
//! ServicePort.protocol default "TCP"        JSON
//! ServicePort.protocol enum SCTP,TCP,UDP    values in order, or the name of a list; of a list's elements, if it is one
//! SeccompProfile union type localhostProfile=LocalhostProfile
//!                                           with the discriminator, or `-` if the union has none
//! PersistentVolumeSpec.claimRef granular    server-side apply merges the members, although the type is atomic
//! Toleration.operator until=1.34 enum A,B   the fact is one of these versions of Kubernetes; `since=` likewise
//! ```

use crate::schema::{Member, Type};
use crate::version::{Minor, Versions};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const FILE: &str = include_str!("../../schema/facts.txt");

/// Facts about one type or one member.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Default value.
    pub(super) default: Option<Value>,
    /// Enumeration of the allowed values, in order.
    pub(super) values: Vec<&'static str>,
    /// Value of `x-kubernetes-unions`.
    pub(super) union: Option<Value>,
    /// Whether `x-kubernetes-map-type` is `granular`.
    pub(super) granular: bool,
}

type Table = BTreeMap<&'static str, BTreeMap<&'static str, Facts>>;

/// Facts about a type as a whole, in a version of Kubernetes.
pub(super) fn of_type(minor: Minor, ty: &Type) -> Option<&'static Facts> {
    of(minor, ty, ty.name)
}

/// Facts about a member of a type, or of a type inlined in it, in a version of Kubernetes.
pub(super) fn of_field(minor: Minor, ty: &Type, field: &str) -> Option<&'static Facts> {
    let inline = |(_, member): &(u32, Member)| match member {
        Member::Inline(inline) => of_field(minor, inline.get(), field),
        Member::Field(_) => None,
    };
    of(minor, ty, &format!("{}.{field}", ty.name)).or_else(|| ty.members.iter().find_map(inline))
}

fn of(minor: Minor, ty: &Type, name: &str) -> Option<&'static Facts> {
    static TABLES: [OnceLock<Table>; Minor::ALL.len()] = [const { OnceLock::new() }; Minor::ALL.len()];
    TABLES[minor as usize].get_or_init(|| read(minor)).get(ty.package.short)?.get(name)
}

/// Parses the facts of a version. A malformed table is a bug of this crate and panics; a test reads all of it.
fn read(minor: Minor) -> Table {
    let (mut table, mut lists, mut package) = (Table::new(), BTreeMap::new(), "");
    for line in FILE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (head, rest) = line.split_once(' ').unwrap_or_else(|| panic!("incomplete line: {line}"));
        match head.strip_prefix('$') {
            Some(_) => drop(lists.insert(head, rest)),
            None if head == "@" => package = rest,
            None => {
                let (marks, rest) = marks(rest);
                let versions = Versions::marked(marks.split(' '));
                if !versions.unwrap_or_else(|| panic!("wrong versions: {line}")).has(minor) {
                    continue;
                }
                let facts = table.entry(package).or_default().entry(head).or_default();
                fact(facts, rest, &lists);
            }
        }
    }
    table
}

/// The marks of versions before a fact, and the fact.
fn marks(text: &str) -> (&str, &str) {
    let length = |word: &&str| word.len() + 1;
    let is_mark = |word: &&str| word.starts_with("since=") || word.starts_with("until=");
    let at: usize = text.split(' ').take_while(is_mark).map(|word| length(&word)).sum();
    text.split_at(at.min(text.len()))
}

fn fact(facts: &mut Facts, text: &'static str, lists: &BTreeMap<&'static str, &'static str>) {
    let (what, rest) = text.split_once(' ').unwrap_or((text, ""));
    match what {
        "default" => facts.default = Some(serde_json::from_str(rest).expect("a default is JSON")),
        "enum" => facts.values = lists.get(rest).unwrap_or(&rest).split(',').collect(),
        "union" => facts.union = Some(union(rest)),
        "granular" => facts.granular = true,
        _ => panic!("unknown fact: {text}"),
    }
}

/// Value of `x-kubernetes-unions`: the discriminator, `-` for none, and the members with their values.
fn union(text: &str) -> Value {
    let (discriminator, members) = text.split_once(' ').expect("a union has members");
    let pairs = members.split(',').map(|pair| pair.split_once('=').expect("a member of a union has a value"));
    let members: Map<String, Value> = pairs.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    match discriminator {
        "-" => json!([{"fields-to-discriminateBy": members}]),
        _ => json!([{"discriminator": discriminator, "fields-to-discriminateBy": members}]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn every_fact_names_a_type_or_member_of_the_field_table() {
        for (package, facts) in read(Minor::DEFAULT) {
            for name in facts.keys() {
                let (ty, field) = name.split_once('.').unwrap_or((name, ""));
                let found = schema::all().find(|t| t.package.short == package && t.name == ty);
                let found = found.unwrap_or_else(|| panic!("no type {package}.{ty}"));
                assert!(field.is_empty() || found.field(field).is_some(), "{package}.{name}");
            }
        }
    }

    #[test]
    fn a_fact_with_marks_is_one_of_its_versions() {
        let toleration = |minor| schema::lookup_minor(minor, "io.k8s.api.core.v1.Toleration").unwrap();
        let values = |minor| of_field(minor, toleration(minor), "operator").unwrap().values.join(",");
        assert_eq!(values(Minor::V34), "Equal,Exists");
        assert_eq!(values(Minor::V35), "Equal,Exists,Gt,Lt");
    }
}
