//! Parts of a scenario beside its steps: cluster, operators, invariants, expectations, and what is not compared.

use super::fields::{Reading, nearest};
use super::{
    Expectation, Ignored, Invariant, ObjectRef, ObjectSet, Operator, PreparedCluster, Ready, VolatilePath,
};
use crate::limits;
use crate::oracle_id::{OracleId, Severity};
use crate::program::{Placeholders, filled, port_names};
use crate::yaml::{Content, Node};
use kstore_api::expression::plain::Expression;
use kstore_lab::template::check_controllers;
use kstore_lab::webhooks::WebhookServices;
use std::collections::BTreeMap;

/// Components of `cluster.components`.
const COMPONENTS: [&str; 3] = ["controllers", "scheduler", "kubelet-sim"];

pub(super) fn cluster(reading: &mut Reading<'_>, node: Option<&Node>) -> PreparedCluster {
    let mut cluster = PreparedCluster {
        controllers: true,
        only_controllers: Vec::new(),
        scheduler: true,
        nodes: 1,
        crds: Vec::new(),
        manifests: Vec::new(),
        services: BTreeMap::new(),
    };
    let known = ["components", "controllers", "nodes", "crds", "manifests", "services"];
    let Some(fields) = node.and_then(|node| reading.fields(node, "cluster", &known)) else { return cluster };
    if let Some(nodes) = fields.get("nodes") {
        cluster.nodes = reading.number(nodes, "cluster.nodes", limits::NODES).unwrap_or(1);
    }
    if let Some(components) = fields.get("components") {
        let mut named = Vec::new();
        for item in reading.list(components, "cluster.components") {
            let Some(name) = reading.text(item, "a component") else { continue };
            if !COMPONENTS.contains(&name.as_str()) {
                let near = nearest(&name, &COMPONENTS).map_or_else(
                    || format!("use {}", COMPONENTS.join(", ")),
                    |near| format!("did you mean {near:?}?"),
                );
                reading.wrong(item.position, format!("there is no component {name:?}: {near}"));
            }
            named.push(name);
        }
        let has = |name: &str| named.iter().any(|named| named == name);
        (cluster.controllers, cluster.scheduler) = (has("controllers"), has("scheduler"));
        if !has("kubelet-sim") {
            if let Some(nodes) = fields.get("nodes").filter(|_| cluster.nodes > 0) {
                reading.wrong(nodes.position, "nodes need the component \"kubelet-sim\"");
            }
            cluster.nodes = 0;
        }
    }
    if let Some(node) = fields.get("controllers") {
        cluster.only_controllers = controllers(reading, node, cluster.controllers);
    }
    cluster.crds = fields.get("crds").map(|node| reading.paths(node, "cluster.crds")).unwrap_or_default();
    let manifests = fields.get("manifests").map(|node| reading.paths(node, "cluster.manifests"));
    cluster.manifests = manifests.unwrap_or_default();
    cluster.services = fields.get("services").map(|node| services(reading, node)).unwrap_or_default();
    cluster
}

/// Names of the only controllers that run. `runs` is whether any may run.
fn controllers(reading: &mut Reading<'_>, node: &Node, runs: bool) -> Vec<String> {
    if !runs {
        reading.wrong(node.position, "single controllers need the component \"controllers\"");
    }
    let items = reading.list(node, "cluster.controllers");
    if items.is_empty() && matches!(node.content, Content::List(_)) {
        reading.wrong(
            node.position,
            "cluster.controllers names no controller: leave \"controllers\" out of components",
        );
    }
    let mut names = Vec::new();
    for item in items {
        let Some(name) = reading.text(item, "a controller") else { continue };
        if let Err(problem) = check_controllers(std::slice::from_ref(&name)) {
            reading.wrong(item.position, format!("cluster.controllers: {problem}"));
        }
        names.push(name);
    }
    names
}

/// Addresses of Services, whose ports may be those of the run.
fn services(reading: &mut Reading<'_>, node: &Node) -> BTreeMap<String, String> {
    let services = reading.text_map(node, "cluster.services");
    for (service, address) in &services {
        let ports = port_names([address]).into_iter().map(|name| (name, 1)).collect();
        let values = Placeholders { ports, ..Placeholders::default() };
        let address = filled(address, &values).map_err(|error| error.to_string());
        let read = address.and_then(|address| WebhookServices::read([(service.as_str(), address.as_str())]));
        if let Err(problem) = read {
            reading.wrong(node.position, format!("cluster.services: {problem}"));
        }
    }
    services
}

pub(super) fn operators(reading: &mut Reading<'_>, node: Option<&Node>) -> Vec<Operator> {
    let items = node.map(|node| reading.list(node, "operators")).unwrap_or_default();
    let mut all: Vec<Operator> = Vec::new();
    for item in items {
        let Some((operator, replicas)) = operator(reading, item) else { continue };
        let further = (2..=replicas).map(|nth| Operator {
            name: format!("{}-{nth}", operator.name),
            replica_of: Some(operator.name.clone()),
            ..operator.clone()
        });
        for operator in std::iter::once(operator.clone()).chain(further) {
            if all.iter().any(|other| other.name == operator.name) {
                reading.wrong(item.position, format!("two operators have the name {:?}", operator.name));
            }
            all.push(operator);
        }
    }
    if all.is_empty() {
        // The command of the command line.
        all.push(Operator {
            name: "operator".to_owned(),
            command: Vec::new(),
            service_account: None,
            env: BTreeMap::new(),
            ready: Ready::Quiet,
            replica_of: None,
        });
    }
    all
}

/// An operator and the number of its replicas.
fn operator(reading: &mut Reading<'_>, node: &Node) -> Option<(Operator, usize)> {
    let known = ["name", "command", "serviceAccount", "env", "ready", "replicas"];
    let fields = reading.fields(node, "an operator", &known)?;
    let name = reading.required(&fields, "an operator", "name")?;
    let position = name.position;
    let name = reading.text(name, "operators.name")?;
    let is_label = !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_label {
        reading.wrong(
            position,
            format!("the name {name:?} of an operator has more than lower-case letters, digits and dashes"),
        );
    }
    let command = fields.get("command").map(|node| reading.texts(node, "operators.command"));
    let account = fields.get("serviceAccount").and_then(|node| {
        let text = reading.text(node, "operators.serviceAccount")?;
        if text.split('/').filter(|part| !part.is_empty()).count() != 2 {
            reading
                .wrong(node.position, format!("write a service account as NAMESPACE/NAME, and not {text:?}"));
        }
        Some(text)
    });
    let replicas = fields.get("replicas").and_then(|node| {
        let replicas = reading.number(node, "operators.replicas", limits::REPLICAS)?;
        if replicas == 0 {
            reading.wrong(node.position, "an operator has one replica at least");
        }
        Some(replicas)
    });
    let operator = Operator {
        name,
        command: command.unwrap_or_default(),
        service_account: account,
        env: fields.get("env").map(|node| reading.text_map(node, "operators.env")).unwrap_or_default(),
        ready: fields.get("ready").map(|node| ready(reading, node)).unwrap_or_default(),
        replica_of: None,
    };
    Some((operator, replicas.unwrap_or(1)))
}

fn ready(reading: &mut Reading<'_>, node: &Node) -> Ready {
    let Some(fields) = reading.fields(node, "ready", &["watches", "log", "port"]) else {
        return Ready::Quiet;
    };
    match (fields.get("watches"), fields.get("log"), fields.get("port")) {
        (Some(watches), None, None) => Ready::Watches(reading.texts(watches, "ready.watches")),
        (None, Some(log), None) => reading.text(log, "ready.log").map_or(Ready::Quiet, Ready::Log),
        (None, None, Some(port)) => reading.text(port, "ready.port").map_or(Ready::Quiet, Ready::Port),
        _ => {
            reading.wrong(node.position, "ready has one of \"watches\", \"log\" and \"port\"");
            Ready::Quiet
        }
    }
}

/// An object: `plural.group/namespace/name`.
pub(super) fn object(reading: &mut Reading<'_>, node: &Node, what: &str) -> Option<ObjectRef> {
    let text = reading.text(node, what)?;
    let object = ObjectRef::parse(&text);
    if object.is_none() {
        reading.wrong(
            node.position,
            format!("write {what} as RESOURCE/NAMESPACE/NAME, as in jobs.batch/default/a, and not {text:?}"),
        );
    }
    object
}

fn object_set(reading: &mut Reading<'_>, node: &Node, what: &str) -> Option<ObjectSet> {
    let fields = reading.fields(node, what, &["resource", "namespace", "selector"])?;
    let resource = reading.required(&fields, what, "resource")?;
    let resource = reading.text(resource, "resource")?;
    let namespace = fields.get("namespace").and_then(|node| reading.text(node, "namespace"));
    let labels = fields.get("selector").map(|node| selector(reading, node)).unwrap_or_default();
    Some(ObjectSet { resource, namespace: namespace.unwrap_or_default(), labels })
}

/// `app=worker,tier=web`.
fn selector(reading: &mut Reading<'_>, node: &Node) -> BTreeMap<String, String> {
    let Some(text) = reading.text(node, "selector") else { return BTreeMap::new() };
    let pairs: Option<BTreeMap<String, String>> = text
        .split(',')
        .map(|pair| pair.trim().split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect();
    pairs.unwrap_or_else(|| {
        reading.wrong(node.position, format!("write a selector as NAME=VALUE,…, and not {text:?}"));
        BTreeMap::new()
    })
}

pub(super) fn invariants(reading: &mut Reading<'_>, node: Option<&Node>) -> Vec<Invariant> {
    let items = node.map(|node| reading.list(node, "invariants")).unwrap_or_default();
    items.iter().filter_map(|item| invariant(reading, item)).collect()
}

fn invariant(reading: &mut Reading<'_>, node: &Node) -> Option<Invariant> {
    let what = "an invariant";
    let fields = reading.fields(node, what, &["name", "objects", "expression", "when"])?;
    let name = reading.required(&fields, what, "name").and_then(|node| reading.text(node, "invariants.name"));
    let mut objects = BTreeMap::new();
    if let Some(node) = reading.required(&fields, what, "objects") {
        match &node.content {
            Content::Map(entries) => {
                for (key, value) in entries {
                    if let Some(set) = object_set(reading, value, &format!("objects.{}", key.text)) {
                        objects.insert(key.text.clone(), set);
                    }
                }
            }
            Content::Scalar { .. } | Content::List(_) => {
                reading.wrong(node.position, "objects must be a mapping of variables to sets of objects");
            }
        }
    }
    let when = fields.get("when").and_then(|node| Some((node.position, reading.text(node, "when")?)));
    let is_settled = match when {
        None => false,
        Some((_, text)) if text == "always" => false,
        Some((_, text)) if text == "settled" => true,
        Some((position, text)) => {
            reading.wrong(position, format!("when is \"always\" or \"settled\", and not {text:?}"));
            false
        }
    };
    let expression = reading.required(&fields, what, "expression")?;
    let text = reading.text(expression, "invariants.expression")?;
    let names: Vec<&str> = objects.keys().map(String::as_str).collect();
    if let Err(problem) = Expression::condition(&text, &names) {
        reading.wrong(expression.position, format!("expression: {problem}"));
    }
    Some(Invariant { name: name?, objects, expression: text, is_settled })
}

pub(super) fn expectations(reading: &mut Reading<'_>, node: Option<&Node>) -> Vec<Expectation> {
    let items = node.map(|node| reading.list(node, "expect")).unwrap_or_default();
    let read = items.iter().filter_map(|item| {
        let fields = reading.fields(item, "an expectation", &["object", "exists", "matches"])?;
        let object_node = reading.required(&fields, "an expectation", "object")?;
        let object = object(reading, object_node, "object")?;
        let exists = fields.get("exists").and_then(|node| reading.boolean(node, "exists"));
        let matches = fields.get("matches").map(Node::json);
        if exists.is_none() && matches.is_none() {
            reading.wrong(item.position, "an expectation needs \"exists\" or \"matches\"");
        }
        Some(Expectation { object, exists: exists.unwrap_or(true), matches })
    });
    read.collect()
}

pub(super) fn volatile(reading: &mut Reading<'_>, node: Option<&Node>) -> Vec<VolatilePath> {
    let items = node.map(|node| reading.list(node, "volatile")).unwrap_or_default();
    let read = items.iter().filter_map(|item| {
        let fields = reading.fields(item, "a volatile path", &["resource", "path"])?;
        let resource = reading.required(&fields, "a volatile path", "resource")?;
        let resource = reading.text(resource, "resource")?;
        let node = reading.required(&fields, "a volatile path", "path")?;
        let text = reading.text(node, "path")?;
        let path = path(&text);
        if path.is_none() {
            reading.wrong(
                node.position,
                format!(
                    "write a path as in data['password'] or status.conditions.*.reason, and not {text:?}"
                ),
            );
        }
        Some(VolatilePath { resource, path: path? })
    });
    read.collect()
}

/// `data['password']`, `spec.a[0].b`, `status.*.c`.
pub(super) fn path(text: &str) -> Option<Vec<String>> {
    let mut path = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let (inner, after) = bracket.split_once(']')?;
            let inner = inner.trim_matches(|quote| quote == '\'' || quote == '"');
            path.push(inner.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
            if rest.is_empty() && after.starts_with('.') {
                return None;
            }
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            path.push(rest[..end].to_owned());
            rest = match rest[end..].strip_prefix('.') {
                Some("") => return None,
                Some(after) => after,
                None => &rest[end..],
            };
        }
    }
    (!path.is_empty() && path.iter().all(|part| !part.is_empty())).then_some(path)
}

pub(super) fn fungible(reading: &mut Reading<'_>, node: Option<&Node>) -> Vec<ObjectSet> {
    let items = node.map(|node| reading.list(node, "fungible")).unwrap_or_default();
    items.iter().filter_map(|item| object_set(reading, item, "a fungible set")).collect()
}

pub(super) fn ignored(reading: &mut Reading<'_>, node: Option<&Node>) -> Vec<Ignored> {
    let items = node.map(|node| reading.list(node, "ignore")).unwrap_or_default();
    let read = items.iter().filter_map(|item| {
        let fields = reading.fields(item, "an item of ignore", &["resource", "client"])?;
        match (fields.get("resource"), fields.get("client")) {
            (Some(node), None) => Some(Ignored::Resource(reading.text(node, "resource")?)),
            (None, Some(node)) => Some(Ignored::Client(reading.text(node, "client")?)),
            _ => {
                reading.wrong(item.position, "an item of ignore has either \"resource\" or \"client\"");
                None
            }
        }
    });
    read.collect()
}

pub(super) fn severities(reading: &mut Reading<'_>, node: Option<&Node>) -> BTreeMap<OracleId, Severity> {
    let mut all = BTreeMap::new();
    let Some(node) = node else { return all };
    let names: Vec<&str> = OracleId::ALL.iter().map(|oracle| oracle.name()).collect();
    if reading.fields(node, "severity", &names).is_none() {
        return all;
    }
    let Content::Map(entries) = &node.content else { return all };
    for (key, value) in entries {
        let Some(oracle) = OracleId::named(&key.text) else { continue };
        let Some(text) = reading.text(value, "a severity") else { continue };
        match Severity::named(&text) {
            Some(severity) => {
                all.insert(oracle, severity);
            }
            None => reading
                .wrong(value.position, format!("a severity is bug, suspicion or note, and not {text:?}")),
        }
    }
    all
}
