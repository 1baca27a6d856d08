//! Addresses and ports of Services that an undo would restore, and that others have taken since: it asks for the ones of before, else lets
//! the server allocate new ones.

use super::plan::{UndoPlan, UndoStep};
use super::{UndoneObject, resource};
use kstore_api::status::Cause;
use kstore_client::{ApiError, Client, Transaction};
use serde_json::Value;

/// Tries for one Service: each takes away what the server names, all ports of a Service at the most.
const TRIES: usize = 300;

/// Takes addresses and ports that the server cannot give out of a planned Service. Returns a note for each.
pub(super) async fn release_taken(
    client: &Client,
    undone: &UndoneObject,
    plan: &mut UndoPlan,
) -> Vec<String> {
    let mut notes = Vec::new();
    if undone.object.kind.qualified() != "services" {
        return notes;
    }
    let gvr = resource(&undone.object.kind);
    for _ in 0..TRIES {
        let writing = Transaction::new(client);
        let writing = match &plan.step {
            UndoStep::Create(value) => writing.create_value(&gvr, &undone.object.namespace, value),
            UndoStep::Update(value) => writing.update_value(&gvr, value, ""),
            UndoStep::Delete { .. } | UndoStep::Nothing(_) => break,
        };
        // Other refusals concern the whole plan: a namespace, for example, may be part of it.
        let Err(error) = writing.dry_run().commit().await else { break };
        let ApiError::Status(status) = error.error else { break };
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        let (UndoStep::Create(value) | UndoStep::Update(value)) = &mut plan.step else { break };
        let released = without_taken(value, &causes);
        if released.is_empty() {
            break;
        }
        notes.extend(released);
    }
    notes
}

/// Removes from a Service what the causes of a refusal say cannot be allocated. Returns a note for each removed value.
fn without_taken(service: &mut Value, causes: &[Cause]) -> Vec<String> {
    let mut notes = Vec::new();
    let is_of_allocation = |cause: &&Cause| {
        ["allocate", "not in the valid range"].iter().any(|part| cause.message.contains(part))
    };
    for cause in causes.iter().filter(is_of_allocation) {
        let field = cause.field.strip_prefix("spec.").unwrap_or_default();
        let Some(spec) = service.get_mut("spec") else { break };
        if field.starts_with("clusterIP") {
            let one = spec.as_object_mut().and_then(|spec| spec.remove("clusterIP"));
            let all = spec.as_object_mut().and_then(|spec| spec.remove("clusterIPs"));
            let taken = one.or(all).filter(|address| address.as_str() != Some(""));
            notes.extend(
                taken.map(|address| format!("its address {} is taken: it gets a new one", text(&address))),
            );
        } else if field == "healthCheckNodePort" {
            notes.extend(remove(spec, field).map(|port| note_of_port(&port)));
        } else if let Some(index) = field
            .strip_prefix("ports[")
            .and_then(|rest| rest.strip_suffix("].nodePort"))
            .and_then(|index| index.parse::<usize>().ok())
        {
            let port = spec.get_mut("ports").and_then(|ports| ports.get_mut(index));
            notes.extend(port.and_then(|port| remove(port, "nodePort")).map(|port| note_of_port(&port)));
        }
    }
    notes
}

fn note_of_port(port: &Value) -> String {
    format!("its node port {} is taken: it gets a new one", text(port))
}

fn remove(parent: &mut Value, member: &str) -> Option<Value> {
    parent.as_object_mut()?.remove(member)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cause(field: &str, message: &str) -> Cause {
        Cause { reason: "FieldValueInvalid".to_owned(), field: field.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn what_is_taken_is_asked_for_anew_and_everything_else_stays() {
        let service = json!({"spec": {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "type": "NodePort",
            "ports": [{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30081}]}});
        let taken = [
            cause("spec.clusterIPs", "failed to allocate IP 10.96.0.9: provided IP is already allocated"),
            cause("spec.ports[1].nodePort", "Invalid value: 30081: provided port is already allocated"),
        ];
        let mut released = service.clone();
        let notes = without_taken(&mut released, &taken);
        assert_eq!(
            notes,
            [
                "its address 10.96.0.9 is taken: it gets a new one",
                "its node port 30081 is taken: it gets a new one"
            ]
        );
        let expected =
            json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}]}});
        assert_eq!(released, expected);
        assert!(without_taken(&mut released, &taken).is_empty(), "nothing is left to take away");
        let mut other = service.clone();
        let refused = [
            cause("spec.ports[0].nodePort", "Required value"),
            cause("spec.type", "Unsupported value"),
            cause("spec.ports[7].nodePort", "provided port is already allocated"),
        ];
        assert!(without_taken(&mut other, &refused).is_empty());
        assert_eq!(other, service);
    }
}
