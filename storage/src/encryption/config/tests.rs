//! Tables of valid and invalid configurations.

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
/// 32 bytes.
const SECRET: &str = "dGhpcyBpcyBhIHZlcnkgZ29vZCBzZWNyZXQgb2YgMzI=";

fn parse(body: &str) -> Result<Configuration, String> {
    Configuration::parse(format!("{HEAD}{body}").as_bytes(), "f.yaml").map_err(|error| error.to_string())
}

/// A configuration of these resources and providers.
fn rule(resources: &str, providers: &str) -> String {
    format!("resources: [{{resources: [{resources}], providers: [{providers}]}}]")
}

#[test]
fn a_configuration_is_read_from_yaml_or_json() {
    let body = format!(
        "resources:\n- resources: [secrets, '*.apps', 'widgets.example.com']\n  providers:\n  - aescbc:\n      keys:\n      - name: k1\n        secret: {SECRET}\n  - aesgcm: {{keys: [{{name: k2, secret: MDEyMzQ1Njc4OWFiY2RlZg==}}]}}\n  - secretbox: {{keys: [{{name: k3, secret: {SECRET}}}]}}\n  - identity: {{}}\n"
    );
    let config = parse(&body).unwrap();
    let Rule { resources, providers } = &config.rules[0];
    let shown: Vec<_> = resources.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["secrets", "*.apps", "widgets.example.com"]);
    let ciphers = providers.iter().map(|provider| match provider {
        ProviderConfig::Identity | ProviderConfig::Kms(_) => None,
        ProviderConfig::Local(keyring) => Some((keyring.cipher, keyring.keys[0].key.bytes().len())),
    });
    let want = [Some((Cipher::AesCbc, 32)), Some((Cipher::AesGcm, 16)), Some((Cipher::Secretbox, 32)), None];
    assert_eq!(ciphers.collect::<Vec<_>>(), want);
    let json = br#"{"kind": "EncryptionConfig", "apiVersion": "v1", "resources": [{"resources": ["secrets"], "providers": [{"identity": {}}]}]}"#;
    assert!(Configuration::parse(json, "f").is_ok(), "the form of old documents");
}

#[test]
fn documents_of_another_form_are_refused_without_their_values() {
    for (text, want) in [
        (String::new(), "error while loading file: encryption provider configuration file \"f\" is empty"),
        (
            "a: b: c".to_owned(),
            "error decoding encryption provider configuration file \"f\": yaml: line 1: mapping values",
        ),
        ("a: b".to_owned(), "Object 'Kind' is missing"),
        ("kind: EncryptionConfiguration".to_owned(), "Object 'apiVersion' is missing"),
        (
            "apiVersion: apiserver.config.k8s.io/v2\nkind: EncryptionConfiguration".to_owned(),
            "no kind \"EncryptionConfiguration\" is registered for version \"apiserver.config.k8s.io/v2\"",
        ),
        (
            format!(
                "{HEAD}resources: [{{resource: [secrets], providers: [{{aescbc: {{key: [], keys: []}}}}]}}]"
            ),
            "strict decoding error: unknown field \"resources[0].providers[0].aescbc.key\", unknown field \"resources[0].resource\"",
        ),
        (format!("{HEAD}resources: []\nresources: []"), "key \"resources\" already set in map"),
        (
            format!("{HEAD}resources: [{{providers: [{{aescbc: {{keys: sesame}}}}]}}]"),
            "invalid type, expected a sequence",
        ),
    ] {
        let error = Configuration::parse(text.as_bytes(), "f").unwrap_err().to_string();
        assert!(error.starts_with("error while parsing file: ") && error.contains(want), "{text}\n{error}");
        assert!(!error.contains("sesame"), "{error}");
    }
}

#[test]
fn invalid_configurations_are_refused_with_kubernetes_messages() {
    let key = |key: &str| rule("secrets", &format!("{{aescbc: {{keys: [{key}]}}}}"));
    let name = |name: &str| rule(name, "{identity: {}}");
    let kms = |kms: &str| rule("secrets", &format!("{{kms: {{{kms}}}}}"));
    let at = "resources[0].providers[0].kms";
    let overlap = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
    let invalid =
        |value: &str, why: &str| format!("resources[0].resources[0]: Invalid value: \"{value}\": {why}");
    for (body, want) in [
        (String::new(), "resources: Required value: at least one resources is required".to_owned()),
        (rule("", "{identity: {}}"), "resources[0].resources: Required value: at least one resources[0].resources is required".into()),
        (rule("secrets", ""), "resources[0].providers: Required value: at least one resources[0].providers is required".into()),
        (rule("secrets", "{}"), "resources[0].providers[0]: Invalid value: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity".into()),
        (rule("secrets", &format!("{{identity: {{}}, secretbox: {{keys: [{{name: a, secret: {SECRET}}}]}}}}")), "resources[0].providers[0]: Invalid value: more than one provider specified in a single element, should split into different list elements".into()),
        (rule("secrets", "{aesgcm: {}}"), "resources[0].providers[0].aesgcm.keys: Required value: at least one keys is required".into()),
        (key(&format!("{{secret: {SECRET}}}")), "resources[0].providers[0].aescbc.keys[0].name: Required value: name is a mandatory field for a key".into()),
        (key("{name: a}"), "resources[0].providers[0].aescbc.keys[0].secret: Required value: secret is a mandatory field for a key".into()),
        (key("{name: a, secret: '%%'}"), "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded".into()),
        (key("{name: a, secret: c2hvcnQ=}"), "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 5, expected one of [16 24 32]".into()),
        (rule("secrets", "{secretbox: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}}"), "resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 16, expected one of [32]".into()),
        (kms("apiVersion: v2"), format!("[{at}.name: Required value: name is a mandatory field for a provider, {at}.endpoint: Invalid value: \"\": endpoint is a mandatory field for a kms]")),
        (kms("apiVersion: v2, name: 'a:b', endpoint: 'unix:///s'"), format!("{at}.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'")),
        (kms("apiVersion: v2, name: a, endpoint: 'tcp://s', timeout: 0s"), format!("[{at}.timeout: Invalid value: \"0s\": timeout should be a positive value, {at}.endpoint: Invalid value: \"tcp://s\": unsupported scheme \"tcp\" for KMS provider, only unix is supported]")),
        (kms("apiVersion: v2, name: a, endpoint: ':s', timeout: -3s"), format!("[{at}.timeout: Invalid value: \"-3s\": timeout should be a positive value, {at}.endpoint: Invalid value: \":s\": invalid endpoint for kms provider, error: parse \":s\": missing protocol scheme]")),
        (kms("apiVersion: v2, name: a, endpoint: 'unix:///s', cachesize: 5"), format!("{at}.cachesize: Invalid value: 5: cachesize is not supported in v2")),
        (kms("name: a, endpoint: 'unix:///s', cachesize: 0"), format!("{at}.cachesize: Invalid value: 0: cachesize should be a positive value, or negative to disable")),
        (kms("apiVersion: v3, name: a, endpoint: 'unix:///s'"), format!("{at}.apiVersion: Invalid value: \"v3\": unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported")),
        (rule("secrets", "{kms: {apiVersion: v2, name: a, endpoint: 'unix:///s'}}, {kms: {apiVersion: v2, name: a, endpoint: 'unix:///t'}}"), "resources[0].providers[1].kms.name: Invalid value: \"a\": duplicate KMS provider name a, names must be unique".into()),
        (name("Secrets"), invalid("Secrets", "resource name should not contain capital letters")),
        (name("'*'"), invalid("*", "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")),
        (name("serviceipallocations"), invalid("serviceipallocations", "resources which do not have REST API/s cannot be encrypted")),
        (name("events.events.k8s.io"), invalid("events.events.k8s.io", "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file")),
        (name("ingresses.extensions"), invalid("ingresses.extensions", "'extensions' group has been removed and cannot be used for encryption")),
        (name("secrets.*"), invalid("secrets.*", "encrypting the same resource across groups is not supported")),
        (name("secrets, '*.'"), format!("resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: {overlap}")),
        (name("deployments.apps, '*.*'"), format!("resources[0].resources: Invalid value: [\"deployments.apps\",\"*.*\"]: {overlap}")),
        (name("secrets, secrets"), "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource cannot be specified multiple times".into()),
        (rule("'*'", ""), format!("[{}, resources[0].providers: Required value: at least one resources[0].providers is required]", invalid("*", "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"))),
    ] {
        assert_eq!(parse(&body).unwrap_err(), format!("error while parsing file: {want}"), "{body}");
    }
    assert!(parse(&name("secrets, '*.apps'")).is_ok());
}

#[test]
fn a_rule_behind_one_that_covers_it_is_refused() {
    let rules = |names: &[&str]| {
        let each =
            names.iter().map(|name| format!("{{resources: ['{name}'], providers: [{{identity: {{}}}}]}}"));
        format!("resources: [{}]", each.collect::<Vec<_>>().join(", "))
    };
    for (names, want) in [
        (&["*.", "secrets"][..], "resource \"secrets\" is masked by earlier rule \"*.\""),
        (
            &["*.apps", "deployments.apps"],
            "resource \"deployments.apps\" is masked by earlier rule \"*.apps\"",
        ),
        (&["*.*", "*."], "resource \"*.\" is masked by earlier rule \"*.*\""),
        (&["*.*", "*.*"], "resource \"*.*\" is masked by earlier rule \"*.*\""),
    ] {
        assert_eq!(parse(&rules(names)).unwrap_err(), format!("error while building transformers: {want}"));
    }
    assert!(parse(&rules(&["secrets", "*.", "*.*"])).is_ok());
    assert!(parse(&rules(&["secrets", "secrets"])).is_ok(), "the providers of both");
}

#[test]
fn version_1_of_key_management_services_is_refused() {
    for version in ["", "apiVersion: v1, "] {
        let body = rule("secrets", &format!("{{kms: {{{version}name: a, endpoint: 'unix:///s'}}}}"));
        let error = parse(&body).unwrap_err();
        assert!(error.starts_with("error while building transformers: KMSv1 is deprecated"), "{error}");
    }
    let body = rule("secrets", "{kms: {apiVersion: v2, name: a, endpoint: 'unix:///@s', timeout: 1m}}");
    let ProviderConfig::Kms(kms) = &parse(&body).unwrap().rules[0].providers[0] else { panic!("no kms") };
    assert_eq!((kms.name.as_str(), kms.timeout), ("a", Duration::from_secs(60)));
}
