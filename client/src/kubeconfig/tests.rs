//! Tests of valid and invalid kubeconfig files.

use super::*;

const GOOD: &str = r"
apiVersion: v1
kind: Config
current-context: admin@kstore
contexts:
- name: other
  context: {cluster: nowhere, user: nobody}
- name: admin@kstore
  context: {cluster: kstore, user: admin, namespace: team-a}
clusters:
- name: kstore
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority-data: Q0E=
users:
- name: admin
  user:
    client-certificate-data: Q0VSVA==
    client-key: admin.key
";

#[test]
fn the_current_context_is_read_with_inline_data_and_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("admin.key"), "KEY").unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, GOOD).unwrap();
    let config = Kubeconfig::read(&path).unwrap();
    let identity = Identity { certificate: b"CERT".to_vec(), key: b"KEY".to_vec() };
    assert_eq!((config.server.as_str(), config.namespace.as_str()), ("https://127.0.0.1:6443", "team-a"));
    assert_eq!(config.ca.as_deref(), Some(&b"CA"[..]));
    assert!(config.identity == Some(identity));
    assert!(!config.insecure && config.token.is_none());
    assert!(!format!("{config:?}").contains("KEY"));
}

#[test]
fn the_defect_of_a_kubeconfig_is_named() {
    let inline = GOOD.replace("client-key: admin.key", "client-key-data: S0VZ");
    let cases = [
        (
            inline.replace("admin@kstore\ncontexts", "nothing\ncontexts"),
            r#"context "nothing" does not exist"#,
        ),
        (inline.replace("cluster: kstore,", "cluster: nothing,"), r#"cluster "nothing" does not exist"#),
        (inline.replace("user: admin,", "user: nothing,"), r#"user "nothing" does not exist"#),
        (inline.replace("Q0VSVA==", "Q0!"), "client-certificate-data is not base64"),
        (inline.replace("client-key-data: S0VZ", "exec: {command: aws}"), "exec plugin is not supported"),
        (GOOD.to_owned(), "admin.key"),
        ("- 1".to_owned(), "invalid kubeconfig"),
    ];
    for (text, expected) in cases {
        let error = Kubeconfig::parse(&text, Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
