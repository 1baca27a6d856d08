//! Tests of kube-apiserver's command lines: those of test harnesses, and those that the program refuses.

use super::settings::{Apiserver, FrontProxyFiles};
use super::*;
use crate::args::{ApiHere, AuditDestination, Authorization, Component, ModeChoice, Storage};
use crate::dropin::serving::ServingFiles;
use kstore_access::audit::Rotation;
use kstore_admission::PluginSwitches;
use kstore_api::version::Minor;
use std::path::PathBuf;

fn read_in(line: &str, environment: &[(&str, &str)]) -> Result<(Apiserver, Vec<String>), UsageError> {
    let parsed = TABLE.parse(line.split_whitespace().map(str::to_owned))?;
    let mut warnings = parsed.check()?;
    let variable = |name: &str| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    Ok((settings::read(&parsed, variable, &mut warnings)?, warnings))
}

fn read(line: &str) -> Result<(Apiserver, Vec<String>), UsageError> {
    read_in(line, &[])
}

fn modes_of(apiserver: &Apiserver) -> Vec<ModeChoice> {
    match &apiserver.api.access.authorization {
        Some(Authorization::Modes(modes)) => modes.clone(),
        other => panic!("no modes: {other:?}"),
    }
}

fn switches_of(apiserver: &Apiserver) -> PluginSwitches {
    apiserver.api.access.admission.switches.clone()
}

const ENVTEST: &str = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=D \
    --client-ca-file=D/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount \
    --etcd-servers=http://127.0.0.1:7 --secure-port=8 --service-account-issuer=https://127.0.0.1:8/ \
    --service-account-key-file=D/sa-signer.crt --service-account-signing-key-file=D/sa-signer.key \
    --service-cluster-ip-range=10.0.0.0/24";
/// The flags that every command line needs.
const NEEDED: &str = "--etcd-servers http://127.0.0.1:7 --secure-port 8 --service-account-issuer i \
    --service-account-signing-key-file k --allow-privileged";

#[test]
fn envtest_flags_start_an_apiserver_without_other_components() {
    let (apiserver, warnings) = read(ENVTEST).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let ApiHere { storage, service_ranges, anonymous, listen, .. } = &apiserver.api;
    let Storage::External { etcd, dir } = storage else { panic!("not on an etcd: {storage:?}") };
    assert_eq!(
        (etcd.servers[0].to_string().as_str(), etcd.prefix.as_str()),
        ("http://127.0.0.1:7", "/registry")
    );
    assert_eq!((dir, *anonymous, service_ranges.cidrs()), (&None, true, vec!["10.0.0.0/24".to_owned()]));
    assert_eq!((apiserver.loops.components.len(), apiserver.loops.nodes), (0, 0));
    assert_eq!((listen.host.as_str(), listen.port), ("127.0.0.1", 8));
    assert_eq!(apiserver.serving, ServingFiles::Directory("D".into()));
    assert_eq!(apiserver.service_accounts.issuers, ["https://127.0.0.1:8/"]);
    let modes = modes_of(&apiserver);
    assert_eq!(modes, [ModeChoice::Rbac]);
    assert_eq!(switches_of(&apiserver), PluginSwitches::without(["ServiceAccount"]));
}

#[test]
fn repeated_flags_add_up_and_the_first_issuer_signs() {
    let line = "--cert-dir DIR --secure-port 8 --etcd-servers http://0.0.0.0:7 --authorization-mode RBAC \
        --service-account-issuer https://localhost --service-account-signing-key-file DIR/apiserver.key \
        --service-account-signing-key-file DIR/apiserver.key --service-account-key-file DIR/apiserver.key \
        --service-account-issuer DIR/apiserver.crt --disable-admission-plugins ServiceAccount \
        --client-ca-file DIR/client.crt --service-cluster-ip-range 10.0.0.0/24 --allow-privileged";
    let (apiserver, _) = read(line).unwrap();
    assert_eq!(apiserver.service_accounts.issuers, ["https://localhost", "DIR/apiserver.crt"]);
    assert_eq!(apiserver.service_accounts.keys, [PathBuf::from("DIR/apiserver.key")]);
    assert_eq!(apiserver.api.listen.host, "0.0.0.0");
}

#[test]
fn flags_of_the_server_set_its_configuration() {
    let (apiserver, warnings) = read(&format!("{NEEDED} --event-ttl 5m --event-ttl=10m")).unwrap();
    let mut config = kstore_apiserver::ServerConfig::default();
    apiserver.api.access.server.iter().for_each(|value| value.apply(&mut config).unwrap());
    assert_eq!((config.registry.event_ttl.as_secs(), warnings.len()), (600, 1));
    let refused = read(&format!("{NEEDED} --event-ttl soon")).unwrap_err().to_string();
    assert!(refused.starts_with("invalid argument \"soon\" for \"--event-ttl\" flag: expected"), "{refused}");
}

#[test]
fn authorization_defaults_to_always_allow_without_anonymous_requests() {
    let of = |flags: &str| {
        let (apiserver, warnings) = read(&format!("{NEEDED} {flags}")).unwrap();
        let modes = modes_of(&apiserver);
        (modes, apiserver.api.anonymous, warnings.len())
    };
    use ModeChoice::{AlwaysAllow, AlwaysDeny, Node, Rbac};
    assert_eq!(of(""), (vec![AlwaysAllow], false, 1));
    assert_eq!(of("--authorization-mode AlwaysAllow --anonymous-auth=false"), (vec![AlwaysAllow], false, 0));
    assert_eq!(of("--authorization-mode Node,RBAC"), (vec![Node, Rbac], true, 0));
    assert_eq!(of("--authorization-mode AlwaysDeny"), (vec![AlwaysDeny], true, 0));
    assert_eq!(of("--authorization-mode RBAC --anonymous-auth=false"), (vec![Rbac], false, 0));
}

/// A file may state anonymous access, and is read after the flags.
#[test]
fn the_warning_that_anonymous_requests_are_refused_waits_for_the_authentication_configuration() {
    let line = format!("{NEEDED} --authentication-config f");
    let (apiserver, warnings) = read(&line).unwrap();
    assert_eq!(warnings, [""; 0]);
    assert!(
        apiserver.api.access.authentication.anonymous_warning.unwrap().contains("--anonymous-auth is off")
    );
    let warning = |line: &str| read(line).unwrap().0.api.access.authentication.anonymous_warning;
    assert_eq!(warning(&format!("{line} --authorization-mode RBAC")), None);
    assert_eq!(warning(NEEDED), None, "it is among the other warnings");
}

#[test]
fn unsupported_apiserver_flags_are_refused_with_the_reason() {
    for (flags, expected) in [
        ("--insecure-port=8080", "there is no insecure port"),
        ("--authorization-mode=RBAC,Webhook", "needs --authorization-webhook-config-file"),
        ("--authorization-mode=Wrong", "is not a valid mode"),
        ("--audit-webhook-mode=x", "invalid audit webhook mode x, allowed modes are"),
        ("--audit-log-format=legacy", "kstore supports the format json only"),
        ("--audit-log-mode=sometimes", "invalid audit log mode sometimes, allowed modes are"),
        ("--audit-log-maxage=-1", "--audit-log-maxage -1 can't be a negative number"),
        ("--audit-log-compress", "does not compress audit logs"),
        (
            "--encryption-provider-config-automatic-reload",
            "to enable automatic reload, --encryption-provider-config must be set",
        ),
        ("--storage-backend=etcd2", "etcd v3 only"),
        ("--enable-admission-plugins=CertificateRequester", "\"CertificateRequester\" is unknown"),
        ("--admission-control=RBACEscalation", "admission plugin \"RBACEscalation\" is unknown"),
        ("--disable-admission-plugins=NoSuchPlugin", "admission plugin \"NoSuchPlugin\" is unknown"),
        ("--feature-gates=NoSuchGate=true", "unrecognized feature gate"),
        ("--runtime-config=apps/v9=true", "does not serve this API"),
        ("--tls-cert-file=f", "--tls-private-key-file is required"),
        ("--etcd-servers=https://127.0.0.1:7", "--etcd-cafile is required"),
        ("--secure-port=0", "expected a port from 1 to 65535"),
        ("--bind-address=localhost", "expected an IP address"),
        ("--allow-privileged=false", "cannot refuse privileged containers"),
        ("--nonsense", "unknown flag: --nonsense"),
    ] {
        let refused = read(&format!("{NEEDED} {flags}")).unwrap_err().to_string();
        assert!(refused.contains(expected), "{flags}: {refused}");
    }
    for (line, expected) in [
        ("--secure-port 8", "--etcd-servers is required"),
        ("--secure-port 8 --etcd-servers http://a:1", "--service-account-issuer is required"),
        ("--etcd-servers http://a:1", "--secure-port is required: kstore opens no default port"),
    ] {
        let refused = read(line).unwrap_err().to_string();
        assert!(refused.contains(expected), "{line}: {refused}");
    }
}

#[test]
fn audit_needs_a_policy_and_a_destination() {
    let audit = |flags: &str| {
        let (apiserver, warnings) = read(&format!("{ENVTEST} {flags}")).unwrap();
        (apiserver.api.audit, warnings)
    };
    let (log, warnings) = audit("--audit-policy-file p --audit-log-path l --audit-log-maxbackup 3");
    let rotation = Rotation { max_age_days: 0, max_backups: 3, max_size_mb: 100 };
    let want = AuditDestination::File("l".into(), rotation);
    assert_eq!((log.unwrap().log, warnings.len()), (Some(want), 0));
    for (flags, want) in [
        (
            "--audit-policy-file p",
            "--audit-policy-file: nothing is recorded without --audit-log-path or --audit-webhook-config-file",
        ),
        ("--audit-log-path -", "--audit-log-path: nothing is recorded without --audit-policy-file"),
    ] {
        assert_eq!(audit(flags), (None, vec![want.to_owned()]));
    }
}

#[test]
fn admission_plugins_are_enabled_and_disabled_by_name() {
    let disabled = |flags: &str| switches_of(&read(&format!("{NEEDED} {flags}")).unwrap().0).disabled;
    assert_eq!(
        disabled("--disable-admission-plugins=ResourceQuota,NamespaceLifecycle"),
        ["NamespaceLifecycle", "ResourceQuota"].into()
    );
    assert_eq!(disabled("--disable-admission-plugins="), [].into());
    let all = disabled("--admission-control=");
    assert!(all.contains("NamespaceLifecycle") && all.contains("MutatingAdmissionWebhook"), "{all:?}");
    assert!(!disabled("--admission-control=NamespaceLifecycle").contains("NamespaceLifecycle"));
    let (_, warnings) =
        read(&format!("{ENVTEST} --enable-admission-plugins=ClusterTrustBundleAttest,JobValidation"))
            .unwrap();
    assert_eq!(
        warnings,
        ["--enable-admission-plugins: kstore does not have the admission plugin JobValidation"]
    );
}

#[test]
fn environment_variables_start_other_components() {
    let run = |environment: &[(&str, &str)]| {
        read_in(ENVTEST, environment)
            .map(|(apiserver, _)| (apiserver.loops.components, apiserver.loops.nodes))
    };
    let everything = [("KSTORE_CONTROLLERS", "all"), ("KSTORE_SCHEDULER", "1"), ("KSTORE_NODES", "3")];
    let loops = [Component::Controllers, Component::Scheduler, Component::KubeletSim];
    assert_eq!(run(&everything).unwrap(), (loops.into(), 3));
    let (some, warnings) =
        read_in(ENVTEST, &[("KSTORE_CONTROLLERS", "namespace,garbagecollector,selinux-warning-controller")])
            .unwrap();
    let names: Vec<_> = some.loops.controllers.names().collect();
    assert_eq!(names, ["garbage-collector-controller", "namespace-controller"]);
    assert!(
        warnings.contains(&"KSTORE_CONTROLLERS: kstore has no selinux-warning-controller".to_owned()),
        "{warnings:?}"
    );
    for wrong in [("KSTORE_CONTROLLERS", "nothing"), ("KSTORE_SCHEDULER", "yes"), ("KSTORE_NODES", "many")] {
        assert!(run(&[wrong]).is_err(), "{wrong:?}");
    }
}

#[test]
fn an_environment_variable_chooses_the_version_of_kubernetes() {
    let minor = |environment: &[(&str, &str)]| {
        let read = read_in(ENVTEST, environment).map_err(|error| error.to_string());
        read.map(|(apiserver, _)| apiserver.api.access.apis.opt_in.minor())
    };
    assert_eq!(minor(&[]), Ok(Minor::DEFAULT));
    assert_eq!(minor(&[("KSTORE_KUBERNETES_VERSION", "1.34.2")]), Ok(Minor::V34));
    let refused = minor(&[("KSTORE_KUBERNETES_VERSION", "1.32")]).unwrap_err();
    assert!(
        refused.contains("KSTORE_KUBERNETES_VERSION") && refused.contains("1.32 is not served"),
        "{refused}"
    );
}

#[test]
fn flags_choose_the_version_of_kubernetes() {
    let minor = |flags: &str, environment: &[(&str, &str)]| {
        let read = read_in(&format!("{ENVTEST} {flags}"), environment).map_err(|error| error.to_string());
        read.map(|(apiserver, _)| apiserver.api.access.apis.opt_in.minor())
    };
    let older = [("KSTORE_KUBERNETES_VERSION", "1.35")];
    for flags in ["--emulated-version=1.34", "--emulated-version kube=1.34", "--version=v1.34.9"] {
        assert_eq!(minor(flags, &[]), Ok(Minor::V34), "{flags}");
        assert_eq!(minor(flags, &older), Ok(Minor::V34), "a flag precedes the environment: {flags}");
    }
    assert_eq!(minor("--version=v1.36.2 --emulated-version=1.33", &[]), Ok(Minor::V33));
    for (flags, expected) in [
        ("--emulated-version=1.32", "emulation version 1.32 is not between [1.33, 1.37.0]"),
        ("--emulated-version=etcd=1.34", "component etcd is not known"),
        ("--version=v1.32.0", "Kubernetes v1.32.0 is not served"),
        ("--min-compatibility-version=1.36 --emulated-version=1.35", "up to 1.35"),
        ("--min-compatibility-version=new", "expected a version of Kubernetes"),
        ("--feature-gates=DRAFractionalCapacityRange=true", "needs --min-compatibility-version 1.37"),
    ] {
        let refused = minor(flags, &[]).unwrap_err();
        assert!(refused.contains(expected), "{flags}: {refused}");
    }
    let (_, warnings) = read(&format!("{NEEDED} --min-compatibility-version=kube=1.36")).unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("1.36 has no effect")), "{warnings:?}");
}

#[test]
fn front_proxy_headers_must_have_the_default_names() {
    let line = |flags: &str| read(&format!("{NEEDED} --requestheader-client-ca-file=f {flags}"));
    let (apiserver, _) =
        line("--requestheader-username-headers=x-remote-user --requestheader-allowed-names=a,b").unwrap();
    let expected = FrontProxyFiles { authorities: "f".into(), allowed_names: vec!["a".into(), "b".into()] };
    assert_eq!(apiserver.front_proxies, Some(expected));
    for refused in
        ["", "--requestheader-username-headers=X-User", "--requestheader-group-headers=X-Remote-Group,X-G"]
    {
        assert!(line(refused).is_err(), "{refused}");
    }
}

#[test]
fn missing_allow_privileged_gives_a_warning() {
    let (_, warnings) = read(&NEEDED.replace(" --allow-privileged", " --authorization-mode RBAC")).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("privileged containers are allowed"), "{warnings:?}");
}

#[test]
fn help_lists_no_insecure_port() {
    assert!(!help().contains("insecure-port"), "{}", help());
    assert!(
        help().lines().any(|line| line.trim_start().starts_with("--etcd-servers strings ")),
        "{}",
        help()
    );
}
