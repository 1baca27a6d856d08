//! Error answers: messages, reasons, details and causes of each class, and the warnings sent with them.

use super::{CONFIG_MAPS, DEPLOYMENTS, PODS, case, run, send, warnings};
use kstore_proto::kstore::v1 as pb;
use kstore_registry::user::UserInfo;
use kstore_tests::{Setup, manifests, simulate};
use pb::kstore_client::KstoreClient;
use serde_json::{Value, json};

#[test]
fn forbidden_answers_name_verb_resource_and_namespace() {
    simulate(Setup::api_alone(), async |cluster| {
        let user = cluster.rest_as(UserInfo::new("a<b>&c", ["system:authenticated"]));
        let name = "a&lt;b&gt;&amp;c";
        for (method, path, message) in [
            (
                "GET",
                PODS,
                format!(
                    "pods is forbidden: User \"{name}\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
                ),
            ),
            (
                "GET",
                "/api/v1/pods",
                format!(
                    "pods is forbidden: User \"{name}\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
                ),
            ),
            (
                "GET",
                "/api/v1/nodes/n",
                format!(
                    "nodes \"n\" is forbidden: User \"{name}\" cannot get resource \"nodes\" in API group \"\" at the cluster scope"
                ),
            ),
            (
                "DELETE",
                &format!("{DEPLOYMENTS}/web"),
                format!(
                    "deployments.apps \"web\" is forbidden: User \"{name}\" cannot delete resource \"deployments\" in API group \"apps\" in the namespace \"default\""
                ),
            ),
            (
                "GET",
                &format!("{DEPLOYMENTS}/web/scale"),
                format!(
                    "deployments.apps \"web\" is forbidden: User \"{name}\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"default\""
                ),
            ),
            ("GET", "/metrics", format!("forbidden: User \"{name}\" cannot get path \"/metrics\"")),
            ("POST", "/version/x", format!("forbidden: User \"{name}\" cannot post path \"/version/x\"")),
        ] {
            let reply = user.call(method, path, "").await;
            assert_eq!(
                (reply.code, reply.text("/reason"), reply.text("/message")),
                (403, "Forbidden".into(), message),
                "{method} {path}"
            );
            assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        }
        let details = user.call("GET", &format!("{DEPLOYMENTS}/web"), "").await.json()["details"].clone();
        assert_eq!(details, json!({"name": "web", "group": "apps", "kind": "deployments"}));
    });
}

#[test]
fn every_failure_is_a_status_with_a_reason_that_clients_switch_on() {
    simulate(Setup::api_alone(), async |cluster| {
        let there = cluster.create(manifests::deployment("there", 1)).await;
        let mut stale = there.clone();
        stale["metadata"]["resourceVersion"] = json!("1");
        let one = format!("{DEPLOYMENTS}/there");
        let failure = |code: u16, reason: &str, rest: Value| {
            let mut part = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason});
            part.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            part
        };
        run(cluster, [
            case("not found", ("GET", &format!("{DEPLOYMENTS}/none")), Value::Null, 404, failure(404, "NotFound",
                json!({"message": "deployments.apps \"none\" not found", "details": {"name": "none", "group": "apps", "kind": "deployments"}}))),
            case("taken", ("POST", DEPLOYMENTS), manifests::deployment("there", 1), 409, failure(409, "AlreadyExists",
                json!({"message": "deployments.apps \"there\" already exists", "details": {"name": "there", "group": "apps", "kind": "deployments"}}))),
            case("stale", ("PUT", &one), stale, 409, failure(409, "Conflict", json!({"details": {"name": "there", "group": "apps", "kind": "deployments"},
                "message": "Operation cannot be fulfilled on deployments.apps \"there\": the object has been modified; please apply your changes to the latest version and try again"}))),
            case("bad", ("POST", DEPLOYMENTS), json!("text"), 400, failure(400, "BadRequest", json!({}))),
            case("method", ("PUT", DEPLOYMENTS), json!({}), 405, failure(405, "MethodNotAllowed", json!({}))),
            case("version", ("POST", DEPLOYMENTS), json!({"apiVersion": "apps/v1beta1", "kind": "Deployment"}), 400, failure(400, "BadRequest",
                json!({"message": "~the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)"}))),
        ]).await;
    });
}

#[test]
fn each_class_of_error_has_its_reason_and_message() {
    simulate(Setup::api_alone(), async |cluster| {
        let cause = |reason: &str, message: &str, field: &str| json!({"reason": reason, "message": message, "field": field});
        let mut bad = manifests::deployment("web", 1);
        bad["spec"]["replicas"] = json!(-1);
        bad["spec"]["template"]["spec"]["containers"] = json!([
            {"name": "a", "imagePullPolicy": "Maybe", "image": "i", "ports": [{"containerPort": 99999}]},
            {"name": "a", "image": "i", "volumeMounts": [{"name": "none", "mountPath": "/x"}]},
            {"name": "b"},
        ]);
        let reply = send(cluster, "POST", DEPLOYMENTS, &bad).await;
        assert_eq!((reply.code, reply.text("/reason")), (422, "Invalid".into()));
        assert_eq!(
            (reply.text("/details/kind"), reply.text("/details/group"), reply.text("/details/name")),
            ("Deployment".into(), "apps".into(), "web".into()),
            "the kind, not the resource"
        );
        let message = reply.text("/message");
        assert!(message.starts_with("Deployment.apps \"web\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, "), "{message}");
        let causes = reply.json()["details"]["causes"].as_array().unwrap().clone();
        let containers = "spec.template.spec.containers";
        for wanted in [
            cause(
                "FieldValueInvalid",
                "Invalid value: -1: must be greater than or equal to 0",
                "spec.replicas",
            ),
            cause(
                "FieldValueNotSupported",
                "Unsupported value: \"Maybe\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                &format!("{containers}[0].imagePullPolicy"),
            ),
            cause(
                "FieldValueInvalid",
                "Invalid value: 99999: must be between 1 and 65535, inclusive",
                &format!("{containers}[0].ports[0].containerPort"),
            ),
            cause("FieldValueDuplicate", "Duplicate value: \"a\"", &format!("{containers}[1].name")),
            cause(
                "FieldValueNotFound",
                "Not found: \"none\"",
                &format!("{containers}[1].volumeMounts[0].name"),
            ),
            cause("FieldValueRequired", "Required value", &format!("{containers}[2].image")),
        ] {
            assert!(causes.contains(&wanted), "{wanted}\n{causes:#?}");
        }
        let mut bad = manifests::deployment("web", 1);
        bad["spec"]["replicas"] = json!(-1);
        let one = send(cluster, "POST", DEPLOYMENTS, &bad).await;
        assert_eq!(
            one.text("/message"),
            "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        let long = json!({"metadata": {"name": "a", "annotations": {"k": "x".repeat(262_144)}}});
        run(cluster, [
            case("too long", ("POST", CONFIG_MAPS), long, 422, json!({"details": {"causes": [
                {"reason": "FieldValueTooLong", "message": "Too long: may not be more than 262144 bytes", "field": "metadata.annotations"}]}})),
            case("created", ("POST", CONFIG_MAPS), json!({"metadata": {"name": "a"}, "immutable": true}), 201, json!({})),
            case("forbidden", ("PATCH", &format!("{CONFIG_MAPS}/a")), json!({"data": {"a": "b"}}), 422, json!({"details": {"causes": [
                {"reason": "FieldValueForbidden", "message": "Forbidden: field is immutable when `immutable` is set", "field": "data"}]}})),
        ]).await;
    });
}

#[test]
fn an_invalid_credential_is_refused_and_not_treated_as_anonymous() {
    simulate(Setup::api_alone(), async |cluster| {
        let stranger = cluster.rest_as(UserInfo::anonymous());
        let reply = stranger.call("GET", PODS, "").await;
        let text = "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
        assert_eq!((reply.code, reply.text("/message").as_str()), (403, text));
    });
}

#[test]
fn warnings_are_also_sent_with_errors() {
    simulate(Setup::api_alone(), async |cluster| {
        let unknown = "299 - \"unknown field \\\"dada\\\"\"";
        cluster.create(manifests::config_map("there", "1")).await;
        let one = format!("{CONFIG_MAPS}/there");
        let has_warning = |name: &str| json!({"metadata": {"name": name}, "dada": 1});
        for (what, method, path, body, code) in [
            ("taken", "POST", CONFIG_MAPS, has_warning("there"), 409),
            ("invalid", "POST", CONFIG_MAPS, has_warning("Not Good"), 422),
            ("no such namespace", "POST", "/api/v1/namespaces/none/configmaps", has_warning("a"), 404),
            ("another name", "PUT", &one, has_warning("else"), 400),
            ("absent", "PUT", &format!("{CONFIG_MAPS}/none"), has_warning("none"), 404),
            (
                "a patch that breaks it",
                "PATCH",
                &one,
                json!({"dada": 1, "metadata": {"labels": {"-": "x"}}}),
                422,
            ),
        ] {
            let reply = send(cluster, method, path, &body).await;
            assert_eq!(
                (reply.code, warnings(&reply)),
                (code, vec![unknown.to_owned()]),
                "{what}: {}",
                reply.text("/message")
            );
        }
    });
}

#[test]
fn object_warnings_are_sent_for_valid_changed_objects_only() {
    simulate(Setup::api_alone(), async |cluster| {
        let deprecated = "beta.kubernetes.io/os";
        let mut pod = manifests::pod("p", json!({"nodeSelector": {deprecated: "linux"}}));
        let has_warning =
            |reply: &kstore_tests::Reply| warnings(reply).iter().any(|warning| warning.contains(deprecated));
        let made = send(cluster, "POST", PODS, &pod).await;
        assert_eq!((made.code, has_warning(&made)), (201, true), "{:?}", warnings(&made));
        let taken = send(cluster, "POST", PODS, &pod).await;
        assert_eq!((taken.code, has_warning(&taken)), (409, true));
        let patched =
            send(cluster, "PATCH", &format!("{PODS}/p"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(
            (patched.code, has_warning(&patched)),
            (200, false),
            "pods are only warned of when they are made"
        );
        let status =
            send(cluster, "PATCH", &format!("{PODS}/p/status"), &json!({"status": {"phase": "Running"}}))
                .await;
        assert_eq!(
            (status.code, has_warning(&status)),
            (200, false),
            "a status update does not write the spec"
        );
        pod["spec"]["restartPolicy"] = json!("Maybe");
        pod["metadata"]["name"] = json!("q");
        let invalid = send(cluster, "POST", PODS, &pod).await;
        assert_eq!((invalid.code, has_warning(&invalid)), (422, false));
        let mut web = manifests::deployment("web", 1);
        web["spec"]["template"]["spec"]["nodeSelector"] = json!({deprecated: "linux"});
        let (one, scale) = (format!("{DEPLOYMENTS}/web"), format!("{DEPLOYMENTS}/web/scale"));
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        let grown = |replicas: u32| json!({"spec": {"replicas": replicas}});
        for (what, method, path, body, code, said) in [
            ("made", "POST", DEPLOYMENTS, &web, 201, true),
            ("labelled", "PATCH", &one, &labelled, 200, false),
            ("changed", "PATCH", &one, &grown(2), 200, true),
            ("scaled", "PATCH", &scale, &grown(3), 200, true),
            ("changed to what cannot be", "PATCH", &one, &grown(4_294_967_295), 422, false),
            ("changed back", "PUT", &one, &web, 200, true),
            ("written again", "PUT", &one, &web, 200, false),
        ] {
            let reply = send(cluster, method, path, body).await;
            assert_eq!((reply.code, has_warning(&reply)), (code, said), "{what}: {}", reply.text("/message"));
        }
    });
}

#[test]
fn grpc_errors_carry_warnings() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("there", "1")).await;
        let place = pb::Ref {
            version: "v1".into(),
            resource: "configmaps".into(),
            namespace: "default".into(),
            ..pb::Ref::default()
        };
        let create = pb::CreateRequest {
            r#ref: Some(place),
            json: r#"{"metadata":{"name":"there"},"dada":1}"#.into(),
            field_validation: pb::FieldValidation::Warn.into(),
            ..Default::default()
        };
        let refused = KstoreClient::new(cluster.in_process()).create(create).await.unwrap_err();
        let warning = refused.metadata().get_bin("kstore-warning-bin").unwrap().to_bytes().unwrap();
        assert_eq!(
            (refused.code(), &warning[..]),
            (tonic::Code::AlreadyExists, &b"unknown field \"dada\""[..])
        );
    });
}

/// A user's test with an object that the server stores without effect would always pass, so the server warns
/// of such objects.
#[test]
fn writers_are_warned_of_objects_that_have_no_effect_here() {
    simulate(Setup::seed(3), async |cluster| {
        let spec = json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}});
        let attachment = json!({"metadata": {"name": "s"}, "spec": spec});
        let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
        let cases = [(
            attachments.to_owned(),
            attachment.clone(),
            "this server runs no controller for VolumeAttachments",
        )];
        for (path, object, text) in cases {
            for path in [format!("{path}?dryRun=All"), path] {
                let made = send(cluster, "POST", &path, &object).await;
                let warnings = warnings(&made);
                assert!(
                    made.code == 201 && warnings.len() == 1 && warnings[0].contains(text),
                    "{path}: {} {warnings:?}",
                    made.code
                );
            }
        }
        let patched =
            send(cluster, "PATCH", &format!("{attachments}/s"), &json!({"metadata": {"labels": {"a": "b"}}}))
                .await;
        assert_eq!((patched.code, warnings(&patched).len()), (200, 1));
        let status = send(
            cluster,
            "PATCH",
            &format!("{attachments}/s/status"),
            &json!({"status": {"attached": false}}),
        )
        .await;
        assert_eq!((status.code, warnings(&status)), (200, Vec::new()), "its controller writes the status");
        let plain =
            send(cluster, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "plain"}})).await;
        assert_eq!((plain.code, warnings(&plain)), (201, Vec::new()));
        // Another process may run the controllers of an apiserver without controllers.
        let alone = kstore_tests::Rest::new(cluster.another_apiserver().await);
        let path = format!("{attachments}/s");
        let alone = alone
            .call_as("PATCH", &path, "application/merge-patch+json", r#"{"metadata":{"labels":{"a":"c"}}}"#)
            .await;
        assert_eq!((alone.code, warnings(&alone)), (200, Vec::new()));
    });
}
