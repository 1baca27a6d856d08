//! AlwaysPullImages: containers always pull their images, so that only pods with permission to pull an image
//! can use one that is already on the node. An update without a new image keeps the pull policies.

use crate::plugin::{Plugin, Review, Row};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::field::{ErrorList, Path};
use kstore_api::object::{list, text};
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::sync::Arc;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const ALWAYS: &str = "Always";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    kinds: &[("", "pods")],
    mutates: &[Operation::Create, Operation::Update],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("AlwaysPullImages", || Arc::new(AlwaysPullImages))
};

struct AlwaysPullImages;

impl Plugin for AlwaysPullImages {
    fn mutate(&self, review: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        let Review { subject, old, .. } = *review;
        if !concerns(subject, pod, old) {
            return Ok(());
        }
        for name in CONTAINERS {
            for container in items(pod, name) {
                container["imagePullPolicy"] = json!(ALWAYS);
            }
        }
        for volume in items(pod, "volumes") {
            if volume["image"].is_object() {
                volume["image"]["pullPolicy"] = json!(ALWAYS);
            }
        }
        Ok(())
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { subject, old, .. } = *review;
        let Some(pod) = new.filter(|pod| concerns(subject, pod, old)) else { return Ok(()) };
        let mut errors = ErrorList::new();
        for name in CONTAINERS {
            let path = Path::new("spec");
            let path = path.child(name);
            for (at, container) in list(&pod["spec"][name]).iter().enumerate() {
                let policy = text(&container["imagePullPolicy"]);
                if policy != ALWAYS {
                    errors.not_supported(&path.index(at).child("imagePullPolicy"), policy, &[ALWAYS]);
                }
            }
        }
        if errors.is_empty() { Ok(()) } else { subject.refuse(&errors.aggregate()) }
    }
}

/// The items of a list in the pod's spec.
fn items<'p>(pod: &'p mut Value, list: &str) -> impl Iterator<Item = &'p mut Value> {
    pod.get_mut("spec")
        .and_then(|spec| spec.get_mut(list))
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn concerns(subject: &Subject<'_>, pod: &Value, old: Option<&Value>) -> bool {
    let has_old_images_only = |old: &Value| images(pod).all(|image| images(old).any(|own| own == image));
    match subject.operation {
        Operation::Update => !old.is_some_and(has_old_images_only),
        _ => true,
    }
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    let containers = CONTAINERS.into_iter().flat_map(|name| list(&pod["spec"][name]));
    let volumes = list(&pod["spec"]["volumes"]).iter().map(|volume| &volume["image"]["reference"]);
    containers.map(|container| text(&container["image"])).chain(volumes.filter_map(Value::as_str))
}
