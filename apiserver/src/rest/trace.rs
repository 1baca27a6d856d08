//! `GET /kstore/v1/trace`: the writes to one object, those that led to them, and those that followed. A caller needs the permission `get`
//! on the path, and `list` for the object. Writes to other objects are told as far as the caller may list these.

use super::path::{Paths, namespace_of};
use super::query::Query;
use super::rights::Rights;
use crate::view::resolve::VisibleObject;
use kstore_api::status::Status;
use kstore_registry::provenance::{ObjectTrace, TraceNode, changes};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The path.
pub(super) const TRACE: &str = "/kstore/v1/trace";

/// Writes that are judged between two yields to other tasks.
const YIELD: usize = 1_024;

/// Writes by revision and storage key of their object.
type Writes = BTreeSet<(i64, String)>;

impl Paths {
    /// The causal tree of one object, which the query names by `resource` (plural, optionally `.group`), `namespace` and `name`. With
    /// `changes=N` up to N updates have what they changed. `hiddenKinds` are kinds of objects whose writes are left out.
    pub(super) async fn trace(&self, query: &Query, user: &UserInfo) -> Result<Value, Status> {
        let resource = self.stored_resource(query)?;
        let (name, namespace) = (query.get("name"), namespace_of(resource, query));
        let object = self.visible_object(query, user).await?;
        let mut trace = self.pipeline.provenance().trace(&object.key);
        let hidden_kinds = self.hide(&mut trace, &object, user).await;
        if trace.writes.is_empty() {
            let mut missing = Status::not_found(resource, name);
            if let Some(known) = trace.known_from {
                missing.message = format!(
                    "{}: no write to it is known from revision {} ({}) on, and earlier ones are no longer known; \
                     --explain-memory of the server keeps more",
                    missing.message, known.revision, known.time
                );
            }
            return Err(missing);
        }
        let limit = query.get("changes").parse().unwrap_or(0).min(limits::TRACE_CHANGES);
        if limit > 0 {
            changes::add(&mut trace, self.pipeline.cache().storage(), limit).await;
        }
        let mut answer = json!({"kind": "Trace", "apiVersion": "kstore/v1", "resource": resource.qualified(),
            "namespace": namespace, "name": name});
        if !hidden_kinds.is_empty() {
            answer["hiddenKinds"] = json!(hidden_kinds);
        }
        let fields = serde_json::to_value(trace).map_err(Status::internal)?;
        if let (Some(answer), Value::Object(fields)) = (answer.as_object_mut(), fields) {
            answer.extend(fields);
        }
        Ok(answer)
    }

    /// Removes the writes to objects that the caller may not list. What followed from them follows from the write before, then. Returns
    /// the kinds of these objects.
    async fn hide(
        &self,
        trace: &mut ObjectTrace,
        object: &VisibleObject,
        user: &UserInfo,
    ) -> BTreeSet<String> {
        let (cache, authorizer) = (self.pipeline.cache(), self.pipeline.authorizer());
        let (kinds, mut rights) = (cache.kinds(), Rights::of(user));
        let (mut hidden, mut hidden_kinds) = (Writes::new(), BTreeSet::new());
        let mut sees_everything = None;
        let mut written = Vec::new();
        for nodes in [&trace.ancestors, &trace.writes] {
            add_writes(nodes, &mut written);
        }
        for (at, (revision, key)) in written.into_iter().enumerate() {
            if at % YIELD == YIELD - 1 {
                tokio::task::yield_now().await;
            }
            if key == object.key {
                if revision < object.floor {
                    hidden.insert((revision, key));
                }
                continue;
            }
            let resource = kinds.of_key(key.as_bytes());
            let place = resource.and_then(|resource| Some((resource, resource.parse_key(&key)?)));
            let may_see = match place {
                Some((resource, (namespace, name))) => {
                    let own = if resource.is("", "namespaces") { name } else { namespace };
                    rights.may_see(authorizer, cache, resource, (own, revision)).await
                }
                // Of a kind that is not served any more.
                None => match sees_everything {
                    Some(everything) => everything,
                    None => *sees_everything.insert(self.may_read_everything(user).await),
                },
            };
            if !may_see {
                hidden_kinds.extend(place.map(|(resource, _)| resource.qualified()));
                hidden.insert((revision, key));
            }
        }
        if !hidden.is_empty() {
            trace.ancestors = without(std::mem::take(&mut trace.ancestors), &hidden);
            trace.writes = without(std::mem::take(&mut trace.writes), &hidden);
        }
        hidden_kinds
    }
}

/// Adds the writes of a tree, which is at most [`limits::TRACE_DEPTH`] deep.
fn add_writes(nodes: &[TraceNode], found: &mut Vec<(i64, String)>) {
    for node in nodes {
        found.push((node.revision, node.key.clone()));
        add_writes(&node.children, found);
    }
}

/// A tree without some writes; their children take their places, in the order of revisions.
fn without(nodes: Vec<TraceNode>, hidden: &Writes) -> Vec<TraceNode> {
    let mut kept = Vec::new();
    for mut node in nodes {
        node.children = without(std::mem::take(&mut node.children), hidden);
        if hidden.contains(&(node.revision, node.key.clone())) {
            kept.append(&mut node.children);
        } else {
            kept.push(node);
        }
    }
    kept.sort_by_key(|node| node.revision);
    kept
}
