//! Tables as kubectl requests them: columns, cells and row conditions, over REST.

use bytes::Bytes;
use http_body_util::Full;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn table(cluster: &Cluster, path: &str) -> Value {
    let request = http::Request::get(path).header("accept", TABLE);
    let reply: Reply = cluster.rest().send(request.body(Full::new(Bytes::new())).unwrap()).await;
    assert_eq!(reply.code, 200, "{path}: {:?}", reply.body);
    let table = reply.json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")), "{path}");
    table
}

fn headers(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns.iter().map(|column| column["name"].as_str().unwrap()).collect()
}

fn row<'t>(table: &'t Value, name: &str) -> &'t Value {
    let rows = table["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["object"]["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {rows:?}"))
}

#[test]
fn tables_of_default_objects_match_a_real_cluster() {
    simulate(Setup::api_alone(), async |cluster| {
        let services = table(cluster, "/api/v1/namespaces/default/services").await;
        assert_eq!(
            headers(&services),
            ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"]
        );
        let cells = &row(&services, "kubernetes")["cells"];
        assert_eq!(
            *cells,
            json!(["kubernetes", "ClusterIP", "10.96.0.1", "<none>", "443/TCP", "0s", "<none>"])
        );
        let addresses = table(cluster, "/apis/networking.k8s.io/v1/ipaddresses").await;
        let cells = &row(&addresses, "10.96.0.1")["cells"];
        assert_eq!(*cells, json!(["10.96.0.1", "services/default/kubernetes"]));
        let slices = table(cluster, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices").await;
        let cells = &row(&slices, "kubernetes")["cells"];
        assert_eq!(*cells, json!(["kubernetes", "IPv4", "6443", "192.0.2.1", "0s"]));
        let levels =
            table(cluster, "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations").await;
        let cells = &row(&levels, "system")["cells"];
        assert_eq!(*cells, json!(["system", "Limited", 30, 64, 6, 50, "0s"]));
        let apis = table(cluster, "/apis/apiregistration.k8s.io/v1/apiservices").await;
        assert_eq!(row(&apis, "v1.apps")["cells"], json!(["v1.apps", "Local", "True", "0s"]));
        let states = ["/api/v1/componentstatuses", "/api/v1/componentstatuses/etcd-0"];
        for path in states {
            let states = table(cluster, path).await;
            assert_eq!(headers(&states), ["Name", "Status", "Message", "Error"], "{path}");
            assert_eq!(row(&states, "etcd-0")["cells"], json!(["etcd-0", "Healthy", "ok", ""]), "{path}");
        }
        let roles = table(cluster, "/apis/rbac.authorization.k8s.io/v1/clusterroles").await;
        assert_eq!(headers(&roles), ["Name", "Created At"]);
    });
}

#[test]
fn rows_of_terminated_pods_have_a_completed_condition() {
    simulate(Setup::api_alone(), async |cluster| {
        let spec = json!({ "containers": [{ "name": "a", "image": "i" }] });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": spec });
        cluster.create(pod).await;
        let path = "/api/v1/namespaces/default/pods/p";
        let pods = table(cluster, path).await;
        let waiting = row(&pods, "p");
        let cells = json!(["p", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"]);
        assert_eq!((&waiting["cells"], &waiting["conditions"]), (&cells, &Value::Null));
        let status = json!({ "status": { "phase": "Failed", "reason": "Evicted" } }).to_string();
        let merge = "application/merge-patch+json";
        let done = cluster.rest().call_as("PATCH", &format!("{path}/status"), merge, status).await;
        assert_eq!(done.code, 200, "{:?}", done.body);
        let pods = table(cluster, path).await;
        let over = row(&pods, "p");
        assert_eq!(over["cells"][2], "Evicted");
        let said = json!([{ "type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed." }]);
        assert_eq!(over["conditions"], said);
    });
}

#[test]
fn every_list_table_has_one_cell_per_column() {
    simulate(Setup::api_alone(), async |cluster| {
        for row in kstore_api::kind::RESOURCES.iter().filter(|row| row.is_stored()) {
            let root = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
            let table = table(cluster, &format!("{root}/{}/{}", row.version, row.plural)).await;
            let columns = headers(&table).len();
            for cells in table["rows"].as_array().unwrap().iter().map(|row| row["cells"].as_array().unwrap())
            {
                assert_eq!(cells.len(), columns, "{}", row.plural);
            }
        }
    });
}

async fn send(cluster: &Cluster, path: &str) -> Reply {
    let request = http::Request::get(path).header("accept", TABLE);
    cluster.rest().send(request.body(Full::new(Bytes::new())).unwrap()).await
}

#[test]
fn table_watches_send_columns_once_and_bookmarks_as_tables() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = "/api/v1/namespaces?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true\
            &resourceVersionMatch=NotOlderThan";
        let reply = send(cluster, path).await;
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(events.len() > 4, "{text}");
        for (i, event) in events.iter().enumerate() {
            let (object, kind) = (&event["object"], event["type"].as_str().unwrap());
            let rows = object["rows"].as_array().unwrap();
            assert_eq!((&object["kind"], rows.len()), (&json!("Table"), 1), "{event}");
            assert_eq!(object["columnDefinitions"].is_array(), i == 0, "{event}");
            assert_eq!(rows[0]["cells"].is_array(), kind == "ADDED", "{event}");
            let version = &rows[0]["object"]["metadata"]["resourceVersion"];
            assert_eq!((version.is_string(), version), (true, &object["metadata"]["resourceVersion"]));
        }
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["object"]["rows"][0]["object"]["kind"]),
            (&json!("BOOKMARK"), &json!("Namespace"))
        );
    });
}

#[test]
fn rows_include_the_requested_object_form() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = "/api/v1/namespaces/default";
        let carried = async |include: &str| {
            let table = table(cluster, &format!("{path}?includeObject={include}")).await;
            table["rows"][0]["object"].clone()
        };
        assert_eq!(carried("None").await, Value::Null);
        for include in ["", "Metadata"] {
            let metadata = carried(include).await;
            assert_eq!((&metadata["kind"], metadata.get("spec")), (&json!("PartialObjectMetadata"), None));
        }
        let whole = carried("Object").await;
        assert_eq!(
            (&whole["kind"], &whole["spec"]["finalizers"]),
            (&json!("Namespace"), &json!(["kubernetes"]))
        );
        let odd = send(cluster, &format!("{path}?includeObject=Half")).await;
        let text = "Unable to convert to Table as requested: includeObject: Invalid value: \"Half\": must be 'Metadata', 'Object', 'None', or empty";
        assert_eq!((odd.code, odd.text("/message").as_str()), (400, text));
        let plain = cluster.rest().call("GET", &format!("{path}?includeObject=Half"), "").await;
        assert_eq!(plain.code, 200, "only rows carry something");
        let missing = send(cluster, "/api/v1/namespaces/none").await;
        assert_eq!((missing.code, missing.text("/kind").as_str()), (404, "Status"), "a refusal has no rows");
    });
}

#[test]
fn a_scale_is_served_as_a_table() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(kstore_tests::manifests::deployment("web", 3)).await;
        let scale = table(cluster, "/apis/apps/v1/namespaces/default/deployments/web/scale").await;
        assert_eq!(headers(&scale), ["Name", "Desired", "Available", "Age"]);
        assert_eq!(scale["rows"][0]["cells"], json!(["web", 3, 0, "0s"]));
    });
}
