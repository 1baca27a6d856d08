//! [`Question`]: what is asked about a cluster, from the flags of the command. Pure.

use crate::args::WhatIfArgs;
use crate::served_kinds::{FoundKind, built_in};
use kstore_client::manifest::ManifestObject;

/// More nodes like an existing one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MoreNodes {
    pub(super) count: usize,
    pub(super) like: String,
}

/// An object of a built-in kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) kind: FoundKind,
    /// The kind as objects name it: `Deployment`.
    pub(super) kind_name: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The changes whose consequences are asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    /// Objects to create or to apply.
    pub(super) objects: Vec<ManifestObject>,
    /// Nodes that are gone, with their pods.
    pub(super) without: Vec<String>,
    /// Nodes that are drained.
    pub(super) drain: Vec<String>,
    pub(super) more_nodes: Vec<MoreNodes>,
    /// Workloads with their new numbers of replicas.
    pub(super) scale: Vec<(Named, u32)>,
    pub(super) delete: Vec<Named>,
}

/// Most nodes that a question adds.
const MORE_NODES: usize = 10_000;

impl Question {
    /// The question of these arguments; objects without a namespace are in `namespace`.
    ///
    /// # Errors
    /// Every argument that is wrong.
    pub(super) fn read(
        args: &WhatIfArgs,
        mut objects: Vec<ManifestObject>,
        namespace: &str,
    ) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut question = Self::default();
        for object in &mut objects {
            let is_namespaced = built_in(object.kind()).is_some_and(|found| found.namespaced);
            if is_namespaced && object.namespace().is_empty() {
                object.value["metadata"]["namespace"] = namespace.into();
            }
        }
        question.objects = objects;
        let take = |result: Result<(), String>, problems: &mut Vec<String>| problems.extend(result.err());
        for text in &args.without {
            take(node("--without", text).map(|name| question.without.push(name)), &mut problems);
        }
        for text in &args.drain {
            take(node("--drain", text).map(|name| question.drain.push(name)), &mut problems);
        }
        for text in &args.with_nodes {
            take(more_nodes(text).map(|more| question.more_nodes.push(more)), &mut problems);
        }
        for text in &args.scale {
            take(scale(text, namespace).map(|scaled| question.scale.push(scaled)), &mut problems);
        }
        for text in &args.delete {
            take(named("--delete", text, namespace).map(|one| question.delete.push(one)), &mut problems);
        }
        if problems.is_empty() && question.is_empty() {
            problems
                .push("ask something: -f, --without, --drain, --with-nodes, --scale or --delete".to_owned());
        }
        if problems.is_empty() { Ok(question) } else { Err(problems) }
    }

    fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.without.is_empty()
            && self.drain.is_empty()
            && self.more_nodes.is_empty()
            && self.scale.is_empty()
            && self.delete.is_empty()
    }
}

/// The name in `node/NAME`, whose first part may be left out.
fn node(flag: &str, text: &str) -> Result<String, String> {
    let name = text.strip_prefix("node/").or_else(|| text.strip_prefix("nodes/")).unwrap_or(text);
    match name.is_empty() || name.contains('/') {
        true => Err(format!("{flag} {text:?}: say which node, for example node/node-2")),
        false => Ok(name.to_owned()),
    }
}

/// `2xnode/node-1`, also `2×node/node-1` and `2 like node/node-1`.
fn more_nodes(text: &str) -> Result<MoreNodes, String> {
    let wrong =
        || format!("--with-nodes {text:?}: say how many and like which node, for example 2xnode/node-1");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, rest) = text.split_at(digits);
    let rest = rest.trim_start();
    let like = ["x", "×", "like "].iter().find_map(|word| rest.strip_prefix(word)).ok_or_else(wrong)?;
    let count: usize = count.parse().map_err(|_| wrong())?;
    if count == 0 || count > MORE_NODES {
        return Err(format!("--with-nodes {text:?}: from 1 to {MORE_NODES} nodes can be added"));
    }
    Ok(MoreNodes { count, like: node("--with-nodes", like.trim()).map_err(|_| wrong())? })
}

fn scale(text: &str, namespace: &str) -> Result<(Named, u32), String> {
    let wrong = || format!("--scale {text:?}: say KIND/NAME=REPLICAS, for example deployment/web=40");
    let (object, replicas) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((named("--scale", object, namespace)?, replicas.parse().map_err(|_| wrong())?))
}

/// The object that `KIND/NAME` names.
fn named(flag: &str, text: &str, namespace: &str) -> Result<Named, String> {
    let wrong = || format!("{flag} {text:?}: say which object: KIND/NAME, for example deployment/web");
    let (kind, name) = text.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(wrong)?;
    let found = built_in(kind).ok_or_else(|| format!("{flag} {text:?}: {kind} is not a built-in kind"))?;
    let mut rows = kstore_api::kind::stored();
    let row = rows.find(|row| row.plural == found.plural && row.group == found.group).ok_or_else(wrong)?;
    let namespace = if found.namespaced { namespace.to_owned() } else { String::new() };
    Ok(Named { kind: found, kind_name: row.kind, namespace, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &WhatIfArgs) -> Result<Question, Vec<String>> {
        Question::read(args, Vec::new(), "shop")
    }

    fn list(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn flags_name_nodes_workloads_and_numbers() {
        let args = WhatIfArgs {
            without: list(&["node/a", "b"]),
            drain: list(&["nodes/c"]),
            with_nodes: list(&["2xnode/a", "3×b", "4 like node/c"]),
            scale: list(&["deploy/web=40"]),
            delete: list(&["statefulset/db"]),
            ..WhatIfArgs::default()
        };
        let question = read(&args).unwrap();
        assert_eq!((question.without, question.drain), (list(&["a", "b"]), list(&["c"])));
        let more: Vec<_> = question.more_nodes.iter().map(|more| (more.count, more.like.as_str())).collect();
        assert_eq!(more, [(2, "a"), (3, "b"), (4, "c")]);
        let (scaled, replicas) = &question.scale[0];
        let scaled = (scaled.kind_name, scaled.namespace.as_str(), scaled.name.as_str(), *replicas);
        assert_eq!(scaled, ("Deployment", "shop", "web", 40));
        assert_eq!(question.delete[0].kind.qualified(), "statefulsets.apps");
    }

    #[test]
    fn wrong_flags_are_named_all_at_once() {
        let args = WhatIfArgs {
            without: list(&["node/"]),
            with_nodes: list(&["node/a", "0xa"]),
            scale: list(&["deploy/web", "lamp/a=2"]),
            ..WhatIfArgs::default()
        };
        let problems = read(&args).unwrap_err();
        let expected = [
            "--without \"node/\": say which node, for example node/node-2",
            "--with-nodes \"node/a\": say how many and like which node, for example 2xnode/node-1",
            "--with-nodes \"0xa\": from 1 to 10000 nodes can be added",
            "--scale \"deploy/web\": say KIND/NAME=REPLICAS, for example deployment/web=40",
            "--scale \"lamp/a\": lamp is not a built-in kind",
        ];
        assert_eq!(problems, expected);
        let nothing = read(&WhatIfArgs::default()).unwrap_err();
        assert!(nothing[0].starts_with("ask something: "), "{nothing:?}");
    }

    #[test]
    fn objects_of_namespaced_kinds_are_in_the_namespace_of_the_command() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n";
        let objects = kstore_client::manifest::objects(text).unwrap();
        let question = Question::read(&WhatIfArgs::default(), objects, "shop").unwrap();
        let namespaces: Vec<_> = question.objects.iter().map(ManifestObject::namespace).collect();
        assert_eq!(namespaces, ["shop", ""]);
    }
}
