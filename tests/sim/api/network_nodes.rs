//! The network of simulated nodes: pods with `hostNetwork` and ports with `hostPort`; and what containers find of their node, their image
//! and their limits.

use super::network::{of_image, sh};
use super::streams::run;
use kstore_client::Patch;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

/// A pod on a node.
fn on(node: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod
}

/// The address of a node.
async fn address_of(cluster: &Cluster, node: &str) -> String {
    let node = cluster.get("nodes", "", node).await.unwrap();
    let addresses = node["status"]["addresses"].as_array().unwrap();
    let own = addresses.iter().find(|one| one["type"] == "InternalIP").unwrap();
    own["address"].as_str().unwrap().to_owned()
}

#[test]
fn ports_of_nodes_lead_to_pods_by_address_and_protocol() {
    simulate(Setup::seed(51), async |cluster| {
        cluster.wait_until("a node is there", async || !cluster.list("nodes", "").await.is_empty()).await;
        let nodes = cluster.list("nodes", "").await;
        let node = nodes[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let ip = address_of(cluster, &node).await;
        for (name, host, protocol) in
            [("local", "127.0.0.1", "TCP"), ("outer", &*ip, "TCP"), ("udp", &*ip, "UDP")]
        {
            let mut pod = of_image(name, "agnhost", &["netexec"]);
            pod["spec"]["restartPolicy"] = json!("Never");
            let port = if protocol == "UDP" { 8081 } else { 8080 };
            pod["spec"]["containers"][0]["ports"] =
                json!([{"containerPort": port, "hostPort": 5000, "hostIP": host, "protocol": protocol}]);
            run(cluster, on(&node, pod)).await;
        }
        let mut host = of_image("host", "agnhost", &["netexec", "--http-port=7000", "--udp-port=7001"]);
        host["spec"]["hostNetwork"] = json!(true);
        run(cluster, on(&node, host)).await;
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let hostname = format!("{node}\n");
        for (pod, script, out) in [
            (
                "host",
                "curl -g -s --interface eth0 http://127.0.0.1:5000/hostname; echo".to_owned(),
                "local\n",
            ),
            ("host", format!("curl -s http://{ip}:5000/hostname; echo"), "outer\n"),
            ("host", format!("echo hostname | nc -u -w 5 {ip} 5000; echo"), "udp\n"),
            ("c", format!("curl -s http://{ip}:5000/hostname; echo"), "outer\n"),
            // Servers in the network of the node.
            ("c", format!("curl -s http://{ip}:7000/hostname; echo"), &hostname),
            ("host", "curl -s http://localhost:7000/hostname; echo".to_owned(), &hostname),
            ("c", format!("echo hostname | nc -u -w 5 {ip} 7001; echo"), &hostname),
            ("c", format!("curl -s {ip}:7002; echo $?"), "7\n"),
        ] {
            assert_eq!(sh(cluster, pod, &script).await.0, out, "{pod}: {script}");
        }
        // A pod sees the address of the node, and an ended one has no port.
        let c = cluster.get("pods", "default", "outer").await.unwrap();
        let asked =
            format!("curl -s http://{}:8080/clientip | cut -d: -f1", c["status"]["podIP"].as_str().unwrap());
        assert_eq!(sh(cluster, "host", &asked).await.0, format!("{ip}\n"));
        sh(cluster, "outer", "curl -s localhost:8080/exit?code=0").await;
        let asked = format!("curl -s {ip}:5000/hostname; echo $?");
        cluster.wait_until("the port is closed", async || sh(cluster, "c", &asked).await.0 == "7\n").await;
    });
}

#[test]
fn containers_have_the_files_of_their_image_and_may_move_them() {
    simulate(Setup::seed(52), async |cluster| {
        let mut web = of_image("web", "agnhost", &["test-webserver"]);
        web["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"path": "/localhost.crt", "port": 80}, "periodSeconds": 1, "failureThreshold": 1});
        run(cluster, web).await;
        let is_ready = async |wanted: bool| {
            let pod = cluster.get("pods", "default", "web").await.unwrap();
            pod["status"]["containerStatuses"][0]["ready"] == wanted
        };
        cluster.wait_until("the file is there", async || is_ready(true).await).await;
        assert_eq!(sh(cluster, "web", "mv -v /localhost.crt /tmp/").await.2, 0);
        cluster.wait_until("the file is away", async || is_ready(false).await).await;
        assert_eq!(sh(cluster, "web", "mv -v /tmp/localhost.crt /").await.2, 0);
        cluster.wait_until("the file is back", async || is_ready(true).await).await;
        // The certificate serves TLS.
        let mut porter = of_image("porter", "agnhost", &["porter"]);
        porter["spec"]["containers"][0]["env"] = json!([{"name": "SERVE_TLS_PORT_443", "value": "secret"}, {"name": "SERVE_PORT_80", "value": "plain"}]);
        run(cluster, porter).await;
        let script = "curl -s http://localhost/; echo; curl -s --cacert /localhost.crt https://localhost/; echo; curl -sk https://localhost/";
        assert_eq!(sh(cluster, "porter", script).await.0, "plain\nsecret\nsecret");
        // A volume of an image has its files, too, and is read-only.
        let mut reader = of_image("reader", "busybox", &["sleep", "86400"]);
        reader["spec"]["volumes"] =
            json!([{"name": "v", "image": {"reference": "e2e-test-images/kitten:1.8"}}]);
        reader["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/e", "subPath": "etc"}]);
        run(cluster, reader).await;
        let script =
            "cat /v/data.json; grep -c Alpine /v/etc/os-release /e/os-release; touch /v/x || echo refused";
        let out = "{\"image\": \"kitten.jpg\"}\n/v/etc/os-release:2\n/e/os-release:2\nrefused\n";
        assert_eq!(sh(cluster, "reader", script).await.0, out);
    });
}

#[test]
fn containers_find_their_limits_and_the_parameters_of_their_pod() {
    simulate(Setup::seed(53), async |cluster| {
        let mut pod = of_image("p", "busybox", &["sleep", "86400"]);
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}});
        pod["spec"]["securityContext"] =
            json!({"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]});
        pod["spec"]["volumes"] =
            json!([{"name": "hosts", "hostPath": {"path": "/etc/hosts", "type": "FileOrCreate"}}]);
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "hosts", "mountPath": "/etc/hosts-of-node"}]);
        run(cluster, pod).await;
        let limits = "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.weight /sys/fs/cgroup/memory.max";
        assert_eq!(sh(cluster, "p", limits).await.0, "20000 100000\n4\n67108864\n");
        let mounted = sh(cluster, "p", "mount -t cgroup2").await.0;
        assert!(mounted.starts_with("cgroup on /sys/fs/cgroup type cgroup2 ("), "{mounted}");
        assert_eq!(sh(cluster, "p", "sysctl kernel.shm_rmid_forced").await.0, "kernel.shm_rmid_forced = 1\n");
        let hosts =
            "grep -c localhost /etc/hosts-of-node; grep -c Kubernetes-managed /etc/hosts-of-node /etc/hosts";
        assert_eq!(sh(cluster, "p", hosts).await.0, "2\n/etc/hosts-of-node:0\n/etc/hosts:1\n");
        let resources = json!({"requests": {"cpu": "300m"}, "limits": {"cpu": "500m"}});
        let patch = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
        cluster.resource("pods").patch("default", "p", "resize", &Patch::Strategic(patch)).await.unwrap();
        cluster
            .wait_until("the new limits hold", async || {
                sh(cluster, "p", limits).await.0 == "50000 100000\n12\n67108864\n"
            })
            .await;
    });
}
