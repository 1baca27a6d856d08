//! The calls of the gRPC service: for each the HTTP call with the same handler, and how its answer becomes messages. Pure.

use crate::error::bad_request;
use http::Method;
use kstore_api::status::Status;
use serde_json::{Map, Value, json};

/// Most requests or writes of one message.
pub(crate) const BATCH: usize = 256;

/// How the answer of the HTTP call becomes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    /// One message with the answer's JSON.
    Whole,
    /// One message whose only member has the answer's JSON: `json` of an object. The body of a PUT is that member as well.
    Member(&'static str),
    /// One message with a list in this member, which the answer is or has.
    List(&'static str),
    /// The clock while time passes, and the answer last.
    Progress,
    /// A list in this member in batches, each with the position of its last item, which has this name.
    Batches(&'static str, &'static str),
    /// The log of requests, as `Batches`, or followed.
    Log,
    /// Pieces of a file.
    Download,
    /// The answer to a file that the call sends in pieces.
    Upload,
    /// The program when it runs, and when it has ended.
    Program,
    /// The plan that begins, and its events.
    Plan,
    /// The events of a plan.
    PlanEvents,
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct LabRpc {
    /// Name in `lab.proto`.
    pub(crate) name: &'static str,
    /// Method of the HTTP call.
    pub(crate) method: Method,
    /// Its path below the prefix; members of the request are in braces.
    pub(crate) path: &'static str,
    /// How its answer becomes messages.
    pub(crate) form: AnswerForm,
}

const fn rpc(name: &'static str, method: Method, path: &'static str, form: AnswerForm) -> LabRpc {
    LabRpc { name, method, path, form }
}

use AnswerForm::{Batches, Download, List, Log, Member, Plan, PlanEvents, Program, Progress, Upload, Whole};

/// All calls, in the order of `lab.proto`.
pub(crate) const CALLS: [LabRpc; 57] = [
    rpc("GetInfo", Method::GET, "", Whole),
    rpc("GetClock", Method::GET, "clock", Whole),
    rpc("SetClock", Method::PUT, "clock", Whole),
    rpc("Advance", Method::POST, "clock/advance", Progress),
    rpc("Leap", Method::POST, "clock/leap", Whole),
    rpc("WaitForTime", Method::GET, "clock/wait", Whole),
    rpc("Settle", Method::POST, "settled", Whole),
    rpc("Quiet", Method::POST, "quiet", Whole),
    rpc("WaitForObject", Method::POST, "wait", Member("json")),
    rpc("ListClusters", Method::GET, "clusters", Whole),
    rpc("StartClusters", Method::POST, "clusters", List("clusters")),
    rpc("GetCluster", Method::GET, "clusters/{cluster}", Whole),
    rpc("EndCluster", Method::DELETE, "clusters/{cluster}", Whole),
    rpc("ResetCluster", Method::POST, "clusters/{cluster}/reset", Whole),
    rpc("ListImages", Method::GET, "images", Whole),
    rpc("TakeImage", Method::POST, "images", Whole),
    rpc("DeleteImage", Method::DELETE, "images/{name}", Whole),
    rpc("SaveImage", Method::GET, "images/{name}/file", Download),
    rpc("LoadImage", Method::PUT, "images/{name}/file", Upload),
    rpc("MakeKubeconfig", Method::POST, "kubeconfigs", Whole),
    rpc("SetNode", Method::POST, "nodes/{name}/{action}", Whole),
    rpc("AddNodeFault", Method::POST, "nodes/{name}/faults", Whole),
    rpc("GetNodeFaults", Method::GET, "nodes/{name}/faults", Whole),
    rpc("DeleteNodeFaults", Method::DELETE, "nodes/{name}/faults", Whole),
    rpc("ListClients", Method::GET, "clients", Whole),
    rpc("PutClient", Method::PUT, "clients/{name}", Whole),
    rpc("DeleteClient", Method::DELETE, "clients/{name}", Whole),
    rpc("GetView", Method::GET, "clients/{name}/view", Whole),
    rpc("Requests", Method::GET, "requests", Log),
    rpc("ClearRequests", Method::DELETE, "requests", Whole),
    rpc("Writes", Method::GET, "writes", Batches("writes", "revision")),
    rpc("GetWrite", Method::GET, "writes/{revision}", Whole),
    rpc("GetFaults", Method::GET, "faults", Whole),
    rpc("SetFaults", Method::PUT, "faults", Whole),
    rpc("DeleteFaults", Method::DELETE, "faults", Whole),
    rpc("GetFaultCounts", Method::GET, "faults/counts", Whole),
    rpc("ListCaches", Method::GET, "caches", Whole),
    rpc("PutCache", Method::PUT, "caches/{name}", Whole),
    rpc("GetCache", Method::GET, "caches/{name}", Whole),
    rpc("DeleteCache", Method::DELETE, "caches/{name}", Whole),
    rpc("FreezeCache", Method::POST, "caches/{name}/freeze", Whole),
    rpc("ThawCache", Method::POST, "caches/{name}/thaw", Whole),
    rpc("GetRoutes", Method::GET, "routes", Member("routes")),
    rpc("SetRoutes", Method::PUT, "routes", Member("routes")),
    rpc("ListPlans", Method::GET, "plans", Whole),
    rpc("RunPlan", Method::POST, "plans", Plan),
    rpc("GetPlan", Method::GET, "plans/{id}", Whole),
    rpc("DeletePlan", Method::DELETE, "plans/{id}", Whole),
    rpc("PlanEvents", Method::GET, "plans/{id}/events", PlanEvents),
    rpc("ResumePlan", Method::POST, "plans/{id}/resume", Whole),
    rpc("StepPlan", Method::POST, "plans/{id}/steps", Whole),
    rpc("ListPrograms", Method::GET, "programs", Whole),
    rpc("StartProgram", Method::POST, "programs", Program),
    rpc("GetProgram", Method::GET, "programs/{name}", Whole),
    rpc("EndProgram", Method::DELETE, "programs/{name}", Whole),
    rpc("SignalProgram", Method::POST, "programs/{name}/signal", Whole),
    rpc("RestartProgram", Method::POST, "programs/{name}/start", Whole),
];

/// An HTTP call that was made from a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpForm {
    /// Segments of the path below the prefix.
    pub(crate) path: Vec<String>,
    /// Parameters of the query.
    pub(crate) query: Vec<(String, String)>,
    /// Body; `Null` of a call that has none.
    pub(crate) body: Value,
}

/// A scalar as a part of a path or a query.
fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

impl LabRpc {
    /// The call of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        CALLS.into_iter().find(|rpc| rpc.name == name)
    }

    /// Whether an idempotency key has an effect.
    pub(crate) fn may_have_key(&self) -> bool {
        self.method == Method::POST
    }

    /// The HTTP call of a request, whose member `cluster` is `cluster`.
    ///
    /// # Errors
    /// 400: a member that names something is empty.
    pub(crate) fn http(&self, mut members: Map<String, Value>, cluster: &str) -> Result<HttpForm, Status> {
        let mut path = Vec::new();
        for segment in self.path.split('/').filter(|segment| !segment.is_empty()) {
            let name = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}'));
            path.push(match name {
                None => segment.to_owned(),
                Some("cluster") => cluster.to_owned(),
                Some(name) => members
                    .remove(name)
                    .map(text)
                    .ok_or_else(|| bad_request(&format!("/{name}"), "must not be empty"))?,
            });
        }
        if let AnswerForm::Member(name) = self.form
            && self.method == Method::PUT
        {
            let body = members.remove(name).unwrap_or_else(|| json!([]));
            return Ok(HttpForm { path, query: Vec::new(), body });
        }
        Ok(match self.method == Method::POST || self.method == Method::PUT {
            true => HttpForm { path, query: Vec::new(), body: Value::Object(members) },
            false => {
                let query = members.into_iter().map(|(name, value)| (name, text(value))).collect();
                HttpForm { path, query, body: Value::Null }
            }
        })
    }

    /// The JSON of the messages of an answer that is known as a whole.
    pub(crate) fn messages(&self, answer: Value) -> Vec<Value> {
        match self.form {
            AnswerForm::Member(name) => vec![json!({name: answer})],
            AnswerForm::List(name) if answer.get(name).is_none() => vec![json!({name: [answer]})],
            AnswerForm::Progress => vec![json!({"result": answer})],
            AnswerForm::Plan => vec![json!({"plan": answer})],
            AnswerForm::Batches(name, position) => batches(answer, name, position),
            AnswerForm::Log => batches(answer, "requests", "n"),
            _ => vec![answer],
        }
    }
}

/// The list `name` of an answer in batches. The position of a batch is that of its last item, and of the last batch that of the answer.
fn batches(mut answer: Value, name: &str, position: &str) -> Vec<Value> {
    let Some(Value::Array(items)) = answer.get_mut(name).map(Value::take) else { return vec![answer] };
    let mut batches: Vec<Value> = items
        .chunks(BATCH)
        .map(|batch| json!({name: batch, "next": batch.last().map(|item| &item[position])}))
        .collect();
    match batches.last_mut() {
        Some(last) => last["next"] = answer["next"].take(),
        None => batches.push(json!({name: [], "next": answer["next"]})),
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(name: &str, members: Value) -> Result<(String, String, Value), String> {
        let Value::Object(members) = members else { panic!("{members}") };
        let form = LabRpc::named(name).unwrap().http(members, "f1").map_err(|refused| refused.message)?;
        let query: Vec<String> = form.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok((form.path.join("/"), query.join("&"), form.body))
    }

    #[test]
    fn requests_become_http_calls() {
        let made = |path: &str, query: &str, body: Value| Ok((path.to_owned(), query.to_owned(), body));
        assert_eq!(http("GetInfo", json!({})), made("", "", Value::Null));
        assert_eq!(
            http("ResetCluster", json!({"to": "a"})),
            made("clusters/f1/reset", "", json!({"to": "a"}))
        );
        let put = json!({"name": "a", "busy": false});
        assert_eq!(http("PutClient", put), made("clients/a", "", json!({"busy": false})));
        let end = json!({"name": "a", "grace": "1s"});
        assert_eq!(http("EndProgram", end), made("programs/a", "grace=1s", Value::Null));
        let fault = json!({"name": "n", "fault": "crash", "duration": "2m"});
        assert_eq!(
            http("AddNodeFault", fault),
            made("nodes/n/faults", "", json!({"fault": "crash", "duration": "2m"}))
        );
        let heal = json!({"name": "n", "fault": "crash"});
        assert_eq!(http("DeleteNodeFaults", heal), made("nodes/n/faults", "fault=crash", Value::Null));
        assert_eq!(http("GetWrite", json!({"revision": 7})), made("writes/7", "", Value::Null));
        let routes = json!([{"cache": "a"}]);
        assert_eq!(http("SetRoutes", json!({"routes": routes})), made("routes", "", routes));
        assert_eq!(http("SetRoutes", json!({})), made("routes", "", json!([])));
        assert_eq!(http("GetView", json!({})), Err("/name: must not be empty".to_owned()));
    }

    #[test]
    fn lists_become_batches_with_positions() {
        let items: Vec<Value> = (1..=BATCH + 1).map(|n| json!({"n": n})).collect();
        let log = LabRpc::named("Requests").unwrap();
        let batches = log.messages(json!({"requests": items, "next": 900}));
        let shape = |batch: &Value| (batch["requests"].as_array().unwrap().len(), batch["next"].clone());
        assert_eq!(batches.iter().map(shape).collect::<Vec<_>>(), [(BATCH, json!(BATCH)), (1, json!(900))]);
        assert_eq!(log.messages(json!({"requests": [], "next": 9})), [json!({"requests": [], "next": 9})]);
        let start = LabRpc::named("StartClusters").unwrap();
        assert_eq!(start.messages(json!({"id": "a"})), [json!({"clusters": [{"id": "a"}]})]);
        assert_eq!(start.messages(json!({"clusters": []})), [json!({"clusters": []})]);
    }

    #[test]
    fn every_call_of_the_protocol_is_in_the_table() {
        let service = super::super::convert::descriptors().get_service_by_name("kstore.lab.v1.Lab").unwrap();
        let names: Vec<String> = service.methods().map(|method| method.name().to_owned()).collect();
        assert_eq!(names, CALLS.map(|rpc| rpc.name.to_owned()));
        for method in service.methods() {
            let rpc = LabRpc::named(method.name()).unwrap();
            let is_stream =
                matches!(rpc.form, Progress | Batches(..) | Log | Download | Program | Plan | PlanEvents);
            assert_eq!(method.is_server_streaming(), is_stream, "{}", rpc.name);
            assert_eq!(method.is_client_streaming(), rpc.form == Upload, "{}", rpc.name);
            for segment in rpc.path.split('/').filter_map(|segment| segment.strip_prefix('{')) {
                let name = segment.trim_end_matches('}');
                assert!(method.input().get_field_by_name(name).is_some(), "{}: {name}", rpc.name);
            }
        }
    }
}
