//! Pods that each control allows and refuses, at the versions that changed it.

use super::super::policy::{Level, LevelVersion, Version};
use super::{CONTROLS, Pod, violations};
use kstore_api::version::Minor;
use serde_json::{Value, json};

/// A pod that the level restricted allows.
fn tight() -> Value {
    let security = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" } });
    json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "securityContext": security }] } })
}

/// A change of the restricted pod. Members of `container` and `security` are merged into its container; null
/// removes them.
fn changed(changes: &Value) -> Value {
    let mut pod = tight();
    let mut put = |place: &str, changes: &Value| {
        let target = pod.pointer_mut(place).unwrap();
        for (name, value) in changes.as_object().into_iter().flatten() {
            match value {
                Value::Null => drop(target.as_object_mut().unwrap().remove(name)),
                _ => target[name] = value.clone(),
            }
        }
    };
    put("/metadata", &changes["metadata"]);
    put("/spec", &changes["spec"]);
    put("/spec/containers/0", &changes["container"]);
    put("/spec/containers/0/securityContext", &changes["security"]);
    pod
}

fn texts(level: Level, minor: u64, pod: &Value) -> Vec<String> {
    let wanted = LevelVersion { level, version: Version::Minor(minor) };
    let found = violations(Minor::V37, wanted, &Pod { metadata: &pod["metadata"], spec: &pod["spec"] });
    found.into_iter().map(|one| format!("{} ({})", one.reason, one.detail)).collect()
}

#[test]
fn baseline_controls_allow_and_refuse() {
    for (changes, want) in [
        (json!({}), ""),
        (json!({ "security": { "appArmorProfile": { "type": "Localhost" } } }), ""),
        (
            json!({ "security": { "appArmorProfile": { "type": "Unconfined" } } }),
            "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({ "metadata": { "annotations": { "container.apparmor.security.beta.kubernetes.io/c": "localhost/a" } } }),
            "",
        ),
        (
            json!({ "spec": { "securityContext": { "appArmorProfile": { "type": "Unconfined" } } }, "metadata": { "annotations": { "container.apparmor.security.beta.kubernetes.io/c": "unconfined" } } }),
            "forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to \"Unconfined\", \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")",
        ),
        (json!({ "security": { "capabilities": { "add": ["CHOWN"] } } }), ""),
        (
            json!({ "security": { "capabilities": { "add": ["SYS_TIME", "KILL", "NET_RAW"] } } }),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_TIME\" in securityContext.capabilities.add)",
        ),
        (json!({ "spec": { "hostNetwork": false } }), ""),
        (
            json!({ "spec": { "hostIPC": true, "hostPID": true } }),
            "host namespaces (hostPID=true, hostIPC=true)",
        ),
        (json!({ "spec": { "volumes": [{ "name": "v", "nfs": {} }] } }), ""),
        (
            json!({ "spec": { "volumes": [{ "name": "v", "hostPath": {} }, { "name": "w", "hostPath": {} }] } }),
            "hostPath volumes (volumes \"v\", \"w\")",
        ),
        (json!({ "container": { "ports": [{ "containerPort": 80 }] } }), ""),
        (
            json!({ "container": { "ports": [{ "hostPort": 9 }, { "hostPort": 10 }] } }),
            "hostPort (container \"c\" uses hostPorts 10, 9)",
        ),
        (json!({ "container": { "livenessProbe": { "httpGet": { "port": 80 } } } }), ""),
        (
            json!({ "container": { "livenessProbe": { "httpGet": { "host": "b" } }, "lifecycle": { "preStop": { "tcpSocket": { "host": "a" } } } } }),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle hosts \"a\", \"b\")",
        ),
    ] {
        let want: Vec<&str> = Some(want).filter(|want| !want.is_empty()).into_iter().collect();
        assert_eq!(texts(Level::Baseline, Minor::V37.number(), &changed(&changes)), want, "{changes}");
    }
}

#[test]
fn baseline_controls_of_security_contexts_allow_and_refuse() {
    for (changes, want) in [
        (json!({ "security": { "privileged": false } }), ""),
        (
            json!({ "security": { "privileged": true } }),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (json!({ "security": { "procMount": "Default" } }), ""),
        (
            json!({ "security": { "procMount": "Unmasked" } }),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (json!({ "security": { "procMount": "Unmasked" }, "spec": { "hostUsers": false } }), ""),
        (json!({ "security": { "seLinuxOptions": { "type": "container_engine_t", "level": "s0" } } }), ""),
        (
            json!({ "security": { "seLinuxOptions": { "type": "x", "user": "u" } }, "spec": { "securityContext": { "seLinuxOptions": { "role": "r" } } } }),
            "seLinuxOptions (pod and container \"c\" set forbidden securityContext.seLinuxOptions: type \"x\"; user may not be set; role may not be set)",
        ),
        (json!({ "security": { "seccompProfile": null } }), ""),
        (
            json!({ "security": { "seccompProfile": { "type": "Unconfined" } } }),
            "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (json!({ "spec": { "securityContext": { "sysctls": [{ "name": "net.ipv4.tcp_wmem" }] } } }), ""),
        (
            json!({ "spec": { "securityContext": { "sysctls": [{ "name": "b" }, { "name": "a" }] } } }),
            "forbidden sysctls (b, a)",
        ),
        (json!({ "security": { "windowsOptions": { "hostProcess": false } } }), ""),
        (
            json!({ "security": { "windowsOptions": { "hostProcess": true } }, "spec": { "securityContext": { "windowsOptions": { "hostProcess": true } } } }),
            "hostProcess (pod and container \"c\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ] {
        let want: Vec<&str> = Some(want).filter(|want| !want.is_empty()).into_iter().collect();
        assert_eq!(texts(Level::Baseline, Minor::V37.number(), &changed(&changes)), want, "{changes}");
    }
}

#[test]
fn restricted_controls_allow_and_refuse() {
    for (changes, want) in [
        (json!({}), ""),
        (
            json!({ "security": { "allowPrivilegeEscalation": null } }),
            "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false)",
        ),
        (json!({ "security": { "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] } } }), ""),
        (
            json!({ "security": { "capabilities": { "drop": ["all"], "add": ["CHOWN"] } } }),
            "unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]; container \"c\" must not include \"CHOWN\" in securityContext.capabilities.add)",
        ),
        (
            json!({ "security": { "procMount": "Unmasked" }, "spec": { "hostUsers": false } }),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }, { "name": "w", "image": {} }] } }),
            "",
        ),
        (
            json!({ "spec": { "volumes": [{ "name": "v", "hostPath": {} }, { "name": "w", "nfs": {} }, { "name": "x", "new": {} }] } }),
            "restricted volume types (volumes \"v\", \"w\", \"x\" use restricted volume types \"hostPath\", \"nfs\", \"unknown\")",
        ),
        (
            json!({ "security": { "runAsNonRoot": null }, "spec": { "securityContext": { "runAsNonRoot": true } } }),
            "",
        ),
        (
            json!({ "security": { "runAsNonRoot": null } }),
            "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)",
        ),
        (
            json!({ "security": { "runAsNonRoot": false } }),
            "runAsNonRoot != true (container \"c\" must not set securityContext.runAsNonRoot=false)",
        ),
        (
            json!({ "spec": { "securityContext": { "runAsNonRoot": false } } }),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
        ),
        (json!({ "security": { "runAsUser": 1 } }), ""),
        (json!({ "security": { "runAsUser": 0 } }), "runAsUser=0 (container \"c\" must not set runAsUser=0)"),
        (
            json!({ "security": { "runAsUser": 0, "runAsNonRoot": false }, "spec": { "hostUsers": false } }),
            "",
        ),
        (
            json!({ "security": { "seccompProfile": null }, "spec": { "securityContext": { "seccompProfile": { "type": "Localhost" } } } }),
            "",
        ),
        (
            json!({ "security": { "seccompProfile": null } }),
            "seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
        ),
        (
            json!({ "security": { "seccompProfile": { "type": "Unconfined" } } }),
            "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
    ] {
        let want: Vec<&str> = Some(want).filter(|want| !want.is_empty()).into_iter().collect();
        assert_eq!(texts(Level::Restricted, Minor::V37.number(), &changed(&changes)), want, "{changes}");
    }
}

#[test]
fn a_version_has_the_controls_of_that_release() {
    let reasons = |level, minor, changes: Value| -> Vec<String> {
        let found = texts(level, minor, &changed(&changes)).into_iter();
        found.map(|text| text.split(" (").next().unwrap().to_owned()).collect()
    };
    let sysctl = |name: &str| json!({ "spec": { "securityContext": { "sysctls": [{ "name": name }] } } });
    for (since, name) in [
        (27, "net.ipv4.ip_local_reserved_ports"),
        (29, "net.ipv4.tcp_fin_timeout"),
        (32, "net.ipv4.tcp_rmem"),
        (37, "net.ipv4.tcp_notsent_lowat"),
    ] {
        assert_eq!(reasons(Level::Baseline, since - 1, sysctl(name)), ["forbidden sysctls"]);
        assert_eq!(reasons(Level::Baseline, since, sysctl(name)), [""; 0]);
    }
    let bare = json!({ "security": { "allowPrivilegeEscalation": null, "capabilities": null, "runAsNonRoot": null, "seccompProfile": null } });
    for (minor, want) in [
        (7, vec!["runAsNonRoot != true"]),
        (8, vec!["allowPrivilegeEscalation != false", "runAsNonRoot != true"]),
        (19, vec!["allowPrivilegeEscalation != false", "runAsNonRoot != true", "seccompProfile"]),
        (
            22,
            vec![
                "allowPrivilegeEscalation != false",
                "unrestricted capabilities",
                "runAsNonRoot != true",
                "seccompProfile",
            ],
        ),
    ] {
        assert_eq!(reasons(Level::Restricted, minor, bare.clone()), want, "{minor}");
    }
    let mut windows = bare;
    windows["spec"] = json!({ "os": { "name": "windows" } });
    assert_eq!(reasons(Level::Restricted, 24, windows.clone()).len(), 4);
    assert_eq!(reasons(Level::Restricted, 25, windows), ["runAsNonRoot != true"]);
    let root = json!({ "security": { "runAsUser": 0 } });
    assert_eq!(reasons(Level::Restricted, 22, root.clone()), [""; 0]);
    assert_eq!(reasons(Level::Restricted, 23, root), ["runAsUser=0"]);
    let annotated = json!({ "metadata": { "annotations": { "seccomp.security.alpha.kubernetes.io/pod": "unconfined" } } });
    assert_eq!(reasons(Level::Restricted, 18, annotated.clone()), ["seccompProfile"]);
    assert_eq!(reasons(Level::Baseline, 19, annotated), [""; 0]);
    let host = json!({ "container": { "livenessProbe": { "tcpSocket": { "host": "a" } } } });
    assert_eq!(reasons(Level::Baseline, 33, host.clone()), [""; 0]);
    assert_eq!(reasons(Level::Baseline, 34, host), ["probe or lifecycle host"]);
    let engine = json!({ "security": { "seLinuxOptions": { "type": "container_engine_t" } } });
    assert_eq!(reasons(Level::Baseline, 30, engine.clone()), ["seLinuxOptions"]);
    assert_eq!(reasons(Level::Baseline, 31, engine), [""; 0]);
}

#[test]
fn all_container_lists_are_checked() {
    for list in ["initContainers", "ephemeralContainers"] {
        let mut pod = tight();
        pod["spec"][list] = json!([{ "name": "i", "securityContext": { "privileged": true } }]);
        let want = ["privileged (container \"i\" must not set securityContext.privileged=true)"];
        assert_eq!(texts(Level::Baseline, Minor::V37.number(), &pod), want);
    }
}

#[test]
fn violations_are_ordered_by_name_and_the_privileged_level_has_none() {
    let names =
        |level| CONTROLS.iter().filter(move |control| control.level == level).map(|control| control.id);
    for level in [Level::Baseline, Level::Restricted] {
        assert!(names(level).is_sorted());
    }
    assert!(CONTROLS.is_sorted_by_key(|control| control.level));
    assert!(CONTROLS.iter().all(|control| control.revisions.is_sorted_by_key(|revision| revision.since)));
    let root = changed(&json!({ "security": { "privileged": true } }));
    assert_eq!(texts(Level::Privileged, Minor::V37.number(), &root), [""; 0]);
    assert_eq!(
        texts(Level::Baseline, Minor::V37.number() + 60, &root).len(),
        1,
        "later versions are the newest"
    );
}
