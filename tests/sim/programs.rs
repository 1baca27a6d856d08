//! What commands of containers see of their pod, as Kubernetes' own tests look at it: the log of a pod that has ended, its exit code and
//! its termination message. Each group of cases is one cluster in virtual time.

use kstore_client::DeleteParams;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

/// A pod with one container `c` and the volume `v`, whose parts are merged from `spec`.
async fn run(cluster: &Cluster, name: &str, container: Value, rest: Value) {
    let mut container = container;
    container["name"] = json!("c");
    let mut spec = json!({"restartPolicy": "Never", "containers": [container]});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let labels = json!({"app": "web"});
    let metadata = json!({"name": name, "labels": labels, "annotations": {"builder": "bar"}});
    cluster.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).await;
}

async fn log(cluster: &Cluster, name: &str) -> String {
    let path = format!("/api/v1/namespaces/default/pods/{name}/log?container=c");
    String::from_utf8(cluster.rest().call("GET", &path, "").await.body.to_vec()).unwrap()
}

/// Waits until the pod has ended and returns the end of its container.
async fn end(cluster: &Cluster, name: &str) -> Value {
    let ended = async || {
        let pod = cluster.get("pods", "default", name).await;
        let phase = pod.map(|pod| pod["status"]["phase"].clone()).unwrap_or_default();
        phase == "Succeeded" || phase == "Failed"
    };
    cluster.wait_until(&format!("{name} has ended"), ended).await;
    let pod = cluster.get("pods", "default", name).await.unwrap();
    pod["status"]["containerStatuses"][0]["state"]["terminated"].clone()
}

/// Runs pods, and compares the code and the log of each: a log that begins with `~` is a part of it.
async fn compare(cluster: &Cluster, cases: &[(Value, Value, i64, &str)]) {
    let mut wrong = Vec::new();
    for (at, (container, rest, ..)) in cases.iter().enumerate() {
        run(cluster, &format!("case-{at}"), container.clone(), rest.clone()).await;
    }
    for (at, (container, rest, code, expected)) in cases.iter().enumerate() {
        let name = format!("case-{at}");
        let end = end(cluster, &name).await;
        let found = log(cluster, &name).await;
        let is_right = match expected.strip_prefix('~') {
            Some(part) => found.contains(part),
            None => found == *expected,
        };
        if !is_right || end["exitCode"] != *code {
            wrong
                .push(format!("{container} {rest}\n  expected {code} {expected:?}\n  found {end} {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

async fn make_objects(cluster: &Cluster) {
    let object = |kind: &str, name: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": data});
    let data = json!({"data-1": "value-1", "data-2": "value-2"});
    cluster.create(object("ConfigMap", "settings", data)).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"data-1": "secret-1"}});
    cluster.create(secret).await;
}

fn mounttest(flags: &[&str]) -> Value {
    let args: Vec<&str> = ["mounttest"].iter().chain(flags).copied().collect();
    json!({"image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0", "args": args,
        "volumeMounts": [{"name": "v", "mountPath": "/etc/v"}]})
}

fn volume(source: Value) -> Value {
    let mut volume = source;
    volume["name"] = json!("v");
    json!({"volumes": [volume]})
}

fn with(mut spec: Value, context: Value) -> Value {
    spec["securityContext"] = context;
    spec
}

#[test]
fn images_run_their_own_program_with_the_arguments_of_the_container() {
    simulate(Setup::seed(1), async |cluster| {
        let agnhost = |command: Value, args: Value| json!({"image": "agnhost:2.63.0", "command": command, "args": args});
        compare(
            cluster,
            &[
                (
                    agnhost(Value::Null, json!(["entrypoint-tester", "override", "arguments"])),
                    json!({}),
                    0,
                    "[/agnhost entrypoint-tester override arguments]\n",
                ),
                (
                    agnhost(json!(["/agnhost-2", "entrypoint-tester"]), json!(["a"])),
                    json!({}),
                    0,
                    "[/agnhost-2 entrypoint-tester a]\n",
                ),
                (
                    agnhost(json!(["/agnhost", "entrypoint-tester", "$(A)", "$$(A)", "$(B)"]), Value::Null),
                    json!({}),
                    0,
                    "[/agnhost entrypoint-tester $(A) $(A) $(B)]\n",
                ),
                (agnhost(Value::Null, json!(["nope"])), json!({}), 1, "~unknown command \"nope\""),
                (json!({"image": "busybox", "command": ["sh", "-c", "exit 1"]}), json!({}), 1, ""),
                (json!({"image": "busybox", "command": ["/bin/false"]}), json!({}), 1, ""),
                (
                    json!({"image": "busybox", "command": ["sh", "-c", "if [ $(expr 3 % 2) -ne 0 ]; then exit 4; fi"]}),
                    json!({}),
                    4,
                    "",
                ),
            ],
        )
        .await;
        run(cluster, "pause", json!({"image": "agnhost"}), json!({})).await;
        let says = async || log(cluster, "pause").await.starts_with("Paused\n");
        cluster.wait_until("it says that it pauses", says).await;
        let args = json!(["logs-generator", "--log-lines-total", "100", "--run-duration", "20s"]);
        run(cluster, "lines", json!({"image": "agnhost", "args": args}), json!({})).await;
        end(cluster, "lines").await;
        assert_eq!(log(cluster, "lines").await.lines().count(), 100);
    });
}

#[test]
fn volumes_of_objects_have_their_files_modes_and_owners() {
    simulate(Setup::seed(2), async |cluster| {
        make_objects(cluster).await;
        let content = "content of file \"/etc/v/data-1\": ";
        let both = &["--file_content=/etc/v/data-1", "--file_mode=/etc/v/data-1"];
        let map = |extra: Value| {
            let mut map = json!({"name": "settings"});
            map.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            volume(json!({"configMap": map}))
        };
        let mode =
            |mode: &str, text: &str| format!("mode of file \"/etc/v/data-1\": {mode}\n{content}{text}\n");
        let secret = volume(json!({"secret": {"secretName": "keys", "defaultMode": 256}}));
        let group = json!({"runAsUser": 1000, "fsGroup": 1001});
        let projected = json!({"projected": {"sources": [
            {"downwardAPI": {"items": [{"path": "podname", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"secret": {"name": "keys", "items": [{"key": "data-1", "path": "deep/secret", "mode": 292}]}},
            {"configMap": {"name": "settings"}}]}});
        let all = json!({"image": "busybox", "volumeMounts": [{"name": "v", "mountPath": "/all"}],
            "command": ["sh", "-c", "cat /all/podname; echo; cat /all/deep/secret; echo; cat /all/data-2; ls -A /all | wc -l"]});
        let item = json!({"items": [{"key": "data-2", "path": "path/to/it", "mode": 256}]});
        let mapped = &["--file_content=/etc/v/path/to/it", "--file_mode=/etc/v/path/to/it"];
        let mapped_log = "mode of file \"/etc/v/path/to/it\": -r--------\ncontent of file \"/etc/v/path/to/it\": value-2\n";
        let sub = json!({"image": "agnhost", "args": ["mounttest", "--file_content=/one"],
            "volumeMounts": [{"name": "v", "mountPath": "/one", "subPath": "data-2"}]});
        let new = "error writing new file \"/etc/v/new\": open /etc/v/new: read-only file system\n";
        compare(
            cluster,
            &[
                (mounttest(both), map(json!({})), 0, &mode("-rw-r--r--", "value-1")),
                (mounttest(both), with(map(json!({})), json!({"runAsUser": 1000})), 0, &mode("-rw-r--r--", "value-1")),
                (mounttest(both), map(json!({"defaultMode": 256})), 0, &mode("-r--------", "value-1")),
                (mounttest(mapped), map(item), 0, mapped_log),
                (mounttest(both), with(secret.clone(), group.clone()), 0, &mode("-r--r-----", "secret-1")),
                (
                    mounttest(&["--file_content=/etc/v/data-1"]),
                    with(secret, json!({"runAsUser": 1000})),
                    1,
                    "error reading file content for \"/etc/v/data-1\": open /etc/v/data-1: permission denied\n",
                ),
                (all, volume(projected), 0, "case-6\nsecret-1\nvalue-26\n"),
                (sub, map(json!({})), 0, "content of file \"/one\": value-2\n"),
                (mounttest(&["--new_file_0644=/etc/v/new"]), map(json!({})), 1, new),
            ],
        )
        .await;
    });
}

#[test]
fn the_downward_api_fills_files_and_variables() {
    simulate(Setup::seed(3), async |cluster| {
        let items = json!([
            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}, "mode": 256},
            {"path": "memory", "resourceFieldRef": {"containerName": "c", "resource": "requests.memory"}},
        ]);
        let resources = json!({"limits": {"cpu": "1250m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "32Mi"}});
        let mut files = mounttest(&["--file_content=/etc/v/cpu", "--file_mode=/etc/v/cpu"]);
        files["resources"] = resources.clone();
        let script = "cd /etc/v; for f in name labels memory; do cat $f; echo; done";
        let all = json!({"image": "busybox", "command": ["sh", "-c", script], "resources": resources,
            "volumeMounts": [{"name": "v", "mountPath": "/etc/v"}]});
        let field =
            |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let amount = |name: &str, resource: &str| json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource}}});
        let env = json!([
            field("NAME", "metadata.name"),
            field("SPACE", "metadata.namespace"),
            field("IP", "status.podIP"),
            field("HOST", "status.hostIP"),
            field("HOSTS", "status.hostIPs"),
            amount("CPU", "requests.cpu"),
            amount("LIMIT", "limits.memory"),
        ]);
        let script = "echo $NAME $SPACE $CPU $LIMIT; [ $HOST = $HOSTS ] && expr $IP : '[0-9.]*' '>' 6";
        let variables =
            json!({"image": "busybox", "command": ["sh", "-c", script], "env": env, "resources": resources});
        let defaults = json!({"image": "busybox", "command": ["sh", "-c", "[ $CPU -ge 1 ] && [ $MEMORY -gt 1000000 ]"],
            "env": [amount("CPU", "limits.cpu"), amount("MEMORY", "limits.memory")]});
        let source = volume(json!({"downwardAPI": {"items": items}}));
        let cpu = "mode of file \"/etc/v/cpu\": -r--------\ncontent of file \"/etc/v/cpu\": 2\n";
        compare(
            cluster,
            &[
                (files, source.clone(), 0, cpu),
                (all, source, 0, "case-1\napp=\"web\"\n33554432\n"),
                (variables, json!({}), 0, "case-2 default 1 67108864\n1\n"),
                (defaults, json!({}), 0, ""),
            ],
        )
        .await;
    });
}

#[test]
fn empty_volumes_are_writable_for_the_users_of_the_pod() {
    simulate(Setup::seed(4), async |cluster| {
        let mut cases = Vec::new();
        for medium in ["", "Memory"] {
            for user in [0, 1001] {
                for (flag, shown) in [("0644", "-rw-r--r--"), ("0666", "-rw-rw-rw-"), ("0777", "-rwxrwxrwx")]
                {
                    let new = format!("--new_file_{flag}=/etc/v/file");
                    let container = mounttest(&[&new, "--file_perm=/etc/v/file", "--file_mode=/etc/v"]);
                    let source = volume(json!({"emptyDir": {"medium": medium}}));
                    let expected = format!(
                        "content of file \"/etc/v/file\": mount-tester new file\n\nmode of file \"/etc/v\": drwxrwxrwx\n\
                         perms of file \"/etc/v/file\": {shown}\n"
                    );
                    cases.push((container, with(source, json!({"runAsUser": user})), expected));
                }
            }
        }
        let cases: Vec<(Value, Value, i64, &str)> = cases
            .iter()
            .map(|(container, rest, log)| (container.clone(), rest.clone(), 0, log.as_str()))
            .collect();
        compare(cluster, &cases).await;
        let tmpfs = "mount type of \"/etc/v\": tmpfs\n";
        let id = json!({"image": "busybox", "command": ["sh", "-c", "id; touch /v/f; stat -c '%u %g %a' /v/f /v"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        let groups = json!({"runAsUser": 1000, "runAsGroup": 3, "fsGroup": 9, "supplementalGroups": [8]});
        let empty = volume(json!({"emptyDir": {}}));
        let parts = json!({"image": "busybox", "env": [{"name": "N", "value": "foo"}],
            "command": ["sh", "-c", "echo x > /part/file; cat /v/foo/bar/file; test -d /v/foo; echo $?"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"},
                {"name": "v", "mountPath": "/part", "subPathExpr": "$(N)/bar"}]});
        run(
            cluster,
            "tmpfs",
            mounttest(&["--fs_type=/etc/v"]),
            volume(json!({"emptyDir": {"medium": "Memory"}})),
        )
        .await;
        run(cluster, "groups", id, with(empty.clone(), groups)).await;
        run(cluster, "parts", parts, empty).await;
        for (name, expected) in [
            ("tmpfs", tmpfs),
            ("groups", "uid=1000 gid=3 groups=3,8,9\n1000 9 644\n0 9 2777\n"),
            ("parts", "x\n0\n"),
        ] {
            end(cluster, name).await;
            assert_eq!(log(cluster, name).await, expected, "{name}");
        }
    });
}

#[test]
fn a_running_command_sees_changed_objects_and_labels() {
    simulate(Setup::seed(5), async |cluster| {
        make_objects(cluster).await;
        let loops = |path: &str| {
            let flag = format!("--file_content_in_loop={path}");
            mounttest(&["--break_on_expected_content=false", "--retry_time=600", &flag])
        };
        let labels = json!({"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}});
        let optional = json!({"configMap": {"name": "later", "optional": true}});
        run(cluster, "map", loops("/etc/v/data-1"), volume(json!({"configMap": {"name": "settings"}}))).await;
        run(cluster, "secret", loops("/etc/v/data-1"), volume(json!({"secret": {"secretName": "keys"}})))
            .await;
        run(cluster, "labels", loops("/etc/v/labels"), volume(labels)).await;
        run(cluster, "later", loops("/etc/v/k"), volume(optional)).await;
        for (name, text) in [
            ("map", "content of file \"/etc/v/data-1\": value-1\n"),
            ("secret", "content of file \"/etc/v/data-1\": secret-1\n"),
            ("labels", "content of file \"/etc/v/labels\": app=\"web\"\n"),
            ("later", "Error reading file /etc/v/k: open /etc/v/k: no such file or directory, retrying\n"),
        ] {
            cluster.wait_until(name, async || log(cluster, name).await.contains(text)).await;
        }
        cluster.merge("configmaps", "settings", json!({"data": {"data-1": "new-1"}})).await;
        cluster.merge("secrets", "keys", json!({"stringData": {"data-1": "new-2"}})).await;
        cluster.merge("pods", "labels", json!({"metadata": {"labels": {"key": "three"}}})).await;
        let later = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}, "data": {"k": "new-4"}});
        cluster.create(later).await;
        for (name, text) in [
            ("map", "content of file \"/etc/v/data-1\": new-1\n"),
            ("secret", "content of file \"/etc/v/data-1\": new-2\n"),
            ("labels", "content of file \"/etc/v/labels\": app=\"web\"\nkey=\"three\"\n"),
            ("later", "content of file \"/etc/v/k\": new-4\n"),
        ] {
            cluster.wait_until(name, async || log(cluster, name).await.contains(text)).await;
        }
        cluster.delete("configmaps", "later", DeleteParams::default()).await;
        let gone = async || log(cluster, "later").await.ends_with("no such file or directory, retrying\n");
        cluster.wait_until("its file is gone again", gone).await;
    });
}

#[test]
fn the_environment_has_services_hosts_and_a_resolver() {
    simulate(Setup::seed(6), async |cluster| {
        make_objects(cluster).await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo-svc"},
            "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 8765, "targetPort": 8080}]}});
        cluster.create(service).await;
        let shell = |script: &str| json!({"image": "busybox", "command": ["sh", "-c", script]});
        let mut prefixed = shell("env | grep data | sort");
        prefixed["envFrom"] =
            json!([{"configMapRef": {"name": "settings"}}, {"prefix": "p-", "secretRef": {"name": "keys"}}]);
        let mut composed = shell("echo $FOOBAR");
        composed["env"] =
            json!([{"name": "FOO", "value": "foo-value"}, {"name": "FOOBAR", "value": "$(FOO);;$(BAR)"}]);
        let mut replaced = shell("TEST_VAR=wrong echo \"$(TEST_VAR)\"");
        replaced["env"] = json!([{"name": "TEST_VAR", "value": "test-value"}]);
        let aliases = json!({"hostAliases": [{"ip": "123.45.67.89", "hostnames": ["foo", "bar"]}]});
        let dns = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["resolv.conf.local"]}});
        let of = |name: &str| json!({"image": "agnhost", "args": [name]});
        let links = "env | grep '^FOO_SVC' | sort";
        let expected = "FOO_SVC_PORT=tcp://10.96.7.7:8765\nFOO_SVC_PORT_8765_TCP=tcp://10.96.7.7:8765\n\
                        FOO_SVC_PORT_8765_TCP_ADDR=10.96.7.7\nFOO_SVC_PORT_8765_TCP_PORT=8765\n\
                        FOO_SVC_PORT_8765_TCP_PROTO=tcp\nFOO_SVC_SERVICE_HOST=10.96.7.7\nFOO_SVC_SERVICE_PORT=8765\n";
        compare(
            cluster,
            &[
                (prefixed, json!({}), 0, "data-1=value-1\ndata-2=value-2\np-data-1=secret-1\n"),
                (composed, json!({}), 0, "foo-value;;$(BAR)\n"),
                (replaced, json!({}), 0, "test-value\n"),
                (shell(links), json!({}), 0, expected),
                (shell(links), json!({"enableServiceLinks": false}), 0, ""),
                (of("etc-hosts"), aliases, 0, "~\n123.45.67.89\tfoo\tbar\n"),
                (of("dns-suffix"), dns.clone(), 0, "resolv.conf.local\n"),
                (of("dns-server-list"), dns, 0, "1.1.1.1\n"),
            ],
        )
        .await;
    });
}

#[test]
fn read_only_roots_host_paths_and_termination_messages_are_as_on_a_node() {
    simulate(Setup::seed(7).nodes(1), async |cluster| {
        let shell = |script: &str, context: Value| {
            json!({"image": "busybox", "command": ["/bin/sh", "-c", script], "securityContext": context,
                "volumeMounts": [{"name": "v", "mountPath": "/v"}]})
        };
        let host = volume(json!({"hostPath": {"path": "/shared", "type": "DirectoryOrCreate"}}));
        let read_only = json!({"readOnlyRootFilesystem": true});
        let refused = "/bin/sh: can't create /file: Read-only file system\n";
        compare(
            cluster,
            &[
                (shell("echo x > /file; sleep 1", read_only.clone()), host.clone(), 0, refused),
                (shell("echo x > /file && cat /file", json!({})), host.clone(), 0, "x\n"),
            ],
        )
        .await;
        let once = "if [[ -r /v/foo ]]; then exit 0; else touch /v/foo; exit 1; fi";
        run(cluster, "first", shell(once, read_only.clone()), host.clone()).await;
        assert_eq!(end(cluster, "first").await["exitCode"], 1);
        run(cluster, "second", shell(once, read_only), host).await;
        assert_eq!(
            end(cluster, "second").await["exitCode"],
            0,
            "it sees the file of another pod of the node"
        );

        let says = |command: Value, path: &str, policy: &str| {
            json!({"image": "busybox", "command": command, "terminationMessagePath": path,
                "terminationMessagePolicy": policy, "securityContext": {"runAsUser": 10000}})
        };
        let write = json!(["sh", "-c", "echo -n DONE > /dev/termination-custom-log"]);
        let print = json!(["sh", "-c", "echo -n DONE; exit 1"]);
        let log_policy = "FallbackToLogsOnError";
        run(cluster, "custom", says(write, "/dev/termination-custom-log", "File"), json!({})).await;
        run(cluster, "printed", says(print, "/dev/termination-log", log_policy), json!({})).await;
        run(
            cluster,
            "quiet",
            says(json!(["/bin/echo", "-n", "DONE"]), "/dev/termination-log", log_policy),
            json!({}),
        )
        .await;
        for (name, message) in [("custom", json!("DONE")), ("printed", json!("DONE")), ("quiet", Value::Null)]
        {
            assert_eq!(end(cluster, name).await["message"], message, "{name}");
        }
    });
}

#[test]
fn a_command_that_must_end_runs_its_trap_or_through_its_grace_period() {
    simulate(Setup::seed(8), async |cluster| {
        let ends = json!({"activeDeadlineSeconds": 5, "terminationGracePeriodSeconds": 20});
        let shell = |script: &str| json!({"image": "busybox", "command": ["sh", "-c", script]});
        let started = cluster.nondet().clock.now();
        run(cluster, "trap", shell("trap 'echo bye; exit 3' TERM; sleep 3600 & wait"), ends.clone()).await;
        run(
            cluster,
            "polls",
            shell("trap 'echo later; exit 4' TERM; while true; do sleep 2; done"),
            ends.clone(),
        )
        .await;
        run(cluster, "deaf", shell("sleep 3600"), ends.clone()).await;
        run(cluster, "agnhost", json!({"image": "agnhost"}), ends.clone()).await;
        let mut hooked = shell("trap 'cat /tmp/hook; exit 5' TERM; sleep 3600 & wait");
        let hook = json!({"exec": {"command": ["sh", "-c", "sleep 1; echo from the hook > /tmp/hook"]}});
        hooked["lifecycle"] = json!({"preStop": hook});
        run(cluster, "hooked", hooked, ends).await;
        for (name, code, text) in [
            ("trap", 3, "bye\n"),
            ("polls", 4, "later\n"),
            ("agnhost", 2, "Paused\nSignals registered\nexiting because of signal \"terminated\"\n"),
            ("hooked", 5, "from the hook\n"),
            ("deaf", 137, ""),
        ] {
            let end = end(cluster, name).await;
            assert_eq!(
                (&end["exitCode"], log(cluster, name).await.as_str()),
                (&json!(code), text),
                "{name}: {end}"
            );
            let took = cluster.nondet().clock.now().duration_since(started);
            let longest = if name == "deaf" { 40 } else { 15 };
            assert!(took.as_secs() < longest, "{name} took {took}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let pod = cluster.get("pods", "default", "agnhost").await.unwrap();
        let end = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(end["message"], "exiting because of signal \"terminated\"\n");
    });
}
