//! What each version of Kubernetes says about itself, against a server of the version: discovery and columns. The expectations are in
//! `rows.txt` and `columns.txt`, which were made from what Kubernetes states and not from the tables of this repository.

use super::{base, each, rows};
use http_body_util::Full;
use kstore_api::version::{Minor, Versions};
use kstore_tests::Rest;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const ROWS: &str = include_str!("rows.txt");
const COLUMNS: &str = include_str!("columns.txt");

/// The verbs of `*`.
const USUAL: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// What a version of Kubernetes lists and kstore does not, with the reason.
const LEFT_OUT: &[(&str, &str)] = &[];

/// What kstore lists and a version of Kubernetes does not, with the reason.
const OWN: &[(&str, &str)] = &[];

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// Whether a version is between the two that a line names.
fn is_of(minor: Minor, first: &str, last: &str) -> bool {
    let parse = |text: &str| text.parse().expect("a line names versions");
    Versions::between(parse(first), parse(last)).has(minor)
}

/// The entries of discovery that a version has, one a line in the form of the file, without the versions.
fn expected(minor: Minor) -> BTreeSet<String> {
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [api, name, first, last, rest @ ..] = &words[..] else { panic!("incomplete line: {line}") };
        is_of(minor, first, last).then(|| {
            let rest = rest.join(" ").replace('*', USUAL);
            format!("{api} {name} {rest}")
        })
    };
    lines(ROWS).filter_map(entry).collect()
}

/// The entries of a server's discovery of one group and version.
async fn listed(rest: &Rest, api: &str) -> BTreeSet<String> {
    let root = if api.contains('/') { format!("/apis/{api}") } else { format!("/api/{api}") };
    let document = rest.call("GET", &root, "").await.json();
    let words = |value: &Value| {
        let mut words: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.sort_unstable();
        if words.is_empty() { "-".to_owned() } else { words.join(",") }
    };
    let word = |value: &Value| value.as_str().filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
    let entry = |resource: &Value| {
        let scope = if resource["namespaced"] == true { "n" } else { "-" };
        [
            api.to_owned(),
            word(&resource["name"]),
            word(&resource["kind"]),
            word(&resource["singularName"]),
            scope.to_owned(),
            words(&resource["verbs"]),
            words(&resource["shortNames"]),
            words(&resource["categories"]),
            word(&resource["storageVersionHash"]),
        ]
        .join(" ")
    };
    document["resources"].as_array().into_iter().flatten().map(entry).collect()
}

/// The entries of one set that the other lacks, without the named ones. `?` in an expectation fits any word.
fn lacking<'a>(
    these: &'a BTreeSet<String>,
    others: &BTreeSet<String>,
    named: &[(&str, &str)],
) -> Vec<&'a String> {
    let fits = |one: &str, other: &str| {
        let (one, other): (Vec<&str>, Vec<&str>) = (one.split(' ').collect(), other.split(' ').collect());
        one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| a == b || *a == "?" || *b == "?")
    };
    let is_named = |entry: &str| named.iter().any(|(start, _)| entry.starts_with(start));
    these
        .iter()
        .filter(|entry| {
            !is_named(entry) && !others.contains(*entry) && !others.iter().any(|other| fits(entry, other))
        })
        .collect()
}

#[test]
fn discovery_is_that_of_kubernetes_in_each_version() {
    let mut wrong = Vec::new();
    each(async |minor, rest| {
        let expected = expected(minor);
        let mut apis: BTreeSet<String> = expected
            .iter()
            .map(|entry| entry.split(' ').next().expect("a line has words").to_owned())
            .collect();
        apis.extend(rows(minor).into_iter().map(|row| row.api_version()));
        let mut found = BTreeSet::new();
        for api in &apis {
            found.extend(listed(rest, api).await);
        }
        wrong.extend(
            lacking(&expected, &found, LEFT_OUT).into_iter().map(|entry| format!("{minor} lacks {entry}")),
        );
        wrong.extend(lacking(&found, &expected, OWN).into_iter().map(|entry| format!("{minor} has {entry}")));
        assert!(found.len() > 100, "{minor}: {}", found.len());
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The columns of each kind in a version.
fn columns_of(minor: Minor) -> BTreeMap<&'static str, &'static str> {
    let line = |line: &'static str| {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("incomplete line: {line}"));
        let (kind, first, last, columns) = (word(), word(), word(), word());
        is_of(minor, first, last).then_some((kind, columns))
    };
    lines(COLUMNS).filter_map(line).collect()
}

#[test]
fn columns_are_those_of_kubernetes_in_each_version() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    each(async |minor, rest| {
        let expected = columns_of(minor);
        for row in rows(minor).into_iter().filter(|row| row.supports("list")) {
            let request = http::Request::get(base(row))
                .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
            let request = request.body(Full::default()).expect("the request is well formed");
            let table = rest.send(request).await.json();
            let column = |column: &Value| {
                let wide = if column["priority"].as_i64().unwrap_or_default() > 0 { "wide" } else { "" };
                let words =
                    ["name", "type", "format"].map(|member| column[member].as_str().unwrap_or_default());
                let words = words.into_iter().chain([wide]).filter(|word| !word.is_empty());
                words.collect::<Vec<_>>().join(" ")
            };
            let columns: Vec<String> =
                table["columnDefinitions"].as_array().into_iter().flatten().map(column).collect();
            let columns = columns.join(", ");
            match expected.get(row.kind) {
                Some(expected) if *expected == columns => compared += 1,
                Some(expected) => wrong.push(format!("{minor} {}: {columns}, and not {expected}", row.kind)),
                // Kinds without a printer have the columns that every kind has.
                None if columns == "Name string name, Created At date" => compared += 1,
                None => wrong.push(format!("{minor} {}: no line, but {columns}", row.kind)),
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 250, "{compared}");
}
