//! What becomes of an object of the source: the bytes that a server stores, or why it is left out. Pure, but for the masks' randomness.

use super::author::Author;
use super::mask::Masks;
use crate::args::SecretPolicy;
use kstore_api::resource::Resource;
use kstore_api::wire::protobuf::MAGIC;
use kstore_api::{meta, object, stored};
use kstore_nondet::Rng;
use kstore_storage::storage_key::{self, KeyPlace};
use serde_json::Value;
use std::borrow::Cow;

/// Begin of a value in CBOR, which a server with that storage form writes for custom kinds.
const CBOR: [u8; 3] = [0xd9, 0xd9, 0xf7];
/// Begin of a value that an API server has encrypted.
pub(super) const ENCRYPTED: &[u8] = b"k8s:enc:";
/// First parts of the keys of an API server's own state.
const INTERNAL: [&str; 4] = ["masterleases", "ranges", "peerserverleases", "health"];
/// Annotation by which a Node that another client created is simulated.
const SIMULATED: &str = "kubelet-sim.kstore.io/node";
/// Kinds whose objects make an API server call another program on each write.
const CALLS: [(&str, &str); 2] = [
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
];

/// Why an object is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Plural and group of its kind, or what else the key begins with.
    pub(super) kind: String,
    pub(super) reason: Cow<'static, str>,
}

/// An object to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportedObject {
    /// Its stored form.
    pub(crate) bytes: Vec<u8>,
    /// Who wrote this version, if the object says so.
    pub(crate) author: Option<Author>,
}

/// The rules of one import.
#[derive(Debug)]
pub(crate) struct Conversion {
    secrets: SecretPolicy,
    is_live: bool,
    excluded: Vec<String>,
    /// Plurals of the kinds that are kept; empty: all.
    kinds: Vec<String>,
    /// Namespaces whose objects are kept; empty: all.
    namespaces: Vec<String>,
    masks: Masks,
}

impl Conversion {
    pub(crate) fn new(secrets: SecretPolicy, is_live: bool, excluded: Vec<String>, rng: &Rng) -> Self {
        let masks = Masks::new(rng.fork("masks"));
        Self { secrets, is_live, excluded, kinds: Vec::new(), namespaces: Vec::new(), masks }
    }

    /// Keeps only objects of these kinds and in these namespaces; an empty list is no bound. Namespaces and definitions stay for what needs
    /// them, and objects outside of namespaces are in none.
    #[must_use]
    pub(crate) fn only(self, kinds: Vec<String>, namespaces: Vec<String>) -> Self {
        Self { kinds, namespaces, ..self }
    }

    /// Converts a value that an API server stored under a key below `/registry`.
    ///
    /// # Errors
    /// The value is none that is served here, or the rules leave it out.
    pub(super) fn convert_stored(&mut self, key: &str, value: &[u8]) -> Result<ImportedObject, LeftOut> {
        let left_out = |reason: Cow<'static, str>| LeftOut { kind: kind_of(key), reason };
        let Some(place) = KeyPlace::of(key) else {
            return Err(left_out(match INTERNAL.contains(&first_part(key)) {
                true => "state of an API server, of which kstore has its own".into(),
                false => "a kind that kstore does not have".into(),
            }));
        };
        if let Some(flag) = self.flag_against(place) {
            return Err(left_out(flag.into()));
        }
        if value.starts_with(ENCRYPTED) {
            return Err(left_out(encrypted(value)));
        }
        if value.starts_with(&CBOR) {
            return Err(left_out("it is stored as CBOR, which kstore does not read".into()));
        }
        let bytes = match storage_key::built_in_of_key(key) {
            Some(row) => match stored::read(row, value) {
                Ok(Some(converted)) => converted,
                Ok(None) => value.to_vec(),
                Err(error) => return Err(left_out(error.to_string().into())),
            },
            None => custom(value).map_err(|reason| left_out(reason.into()))?,
        };
        let parsed: Value = serde_json::from_slice(&bytes)
            .map_err(|error| left_out(format!("it is not JSON: {error}").into()))?;
        if (meta::namespace(&parsed), meta::name(&parsed)) != (place.namespace, place.name) {
            return Err(left_out("it is stored under the name of another object".into()));
        }
        let author = Author::of(&parsed);
        let bytes = self.apply_rules(place, parsed, bytes).map_err(|reason| left_out(reason.into()))?;
        Ok(ImportedObject { bytes, author })
    }

    /// Converts an object of a manifest, of a built-in kind (`row`) or a custom one, to be stored under `key`. What the object lacks stays
    /// missing.
    ///
    /// # Errors
    /// The object is of a version that cannot be converted, or the rules leave it out.
    pub(super) fn convert_object(
        &mut self,
        row: Option<&Resource>,
        key: &str,
        mut value: Value,
    ) -> Result<ImportedObject, LeftOut> {
        let left_out = |reason: Cow<'static, str>| LeftOut { kind: kind_of(key), reason };
        let Some(place) = KeyPlace::of(key) else {
            return Err(left_out("a kind that kstore does not have".into()));
        };
        meta::metadata_mut(&mut value).remove("selfLink");
        if let Some(row) = row.map(Resource::storage_row) {
            stored::to_storage(row, &mut value);
            if object::api_version(&value) != row.api_version() {
                let version = object::api_version(&value);
                return Err(left_out(format!("it cannot be converted from version {version}").into()));
            }
        }
        let (bytes, author) = (object::encode_stored(&value), Author::of(&value));
        let bytes = self.apply_rules(place, value, bytes).map_err(|reason| left_out(reason.into()))?;
        Ok(ImportedObject { bytes, author })
    }

    /// The flag by which an object is left out.
    fn flag_against(&self, place: KeyPlace<'_>) -> Option<&'static str> {
        let names = |list: &[String], word: &str| list.iter().any(|item| item == word);
        let is_namespace = place.is("", "namespaces");
        let is_needed = is_namespace || place.is("apiextensions.k8s.io", "customresourcedefinitions");
        let namespace = if is_namespace { place.name } else { place.namespace };
        match () {
            () if names(&self.excluded, place.plural) => Some("--exclude"),
            () if !self.kinds.is_empty() && !is_needed && !names(&self.kinds, place.plural) => Some("--kind"),
            () if self.namespaces.is_empty() || namespace.is_empty() => None,
            () => (!names(&self.namespaces, namespace)).then_some("--namespace"),
        }
    }

    /// Applies the rules of the import to an object, whose stored form is `bytes`.
    fn apply_rules(
        &mut self,
        place: KeyPlace<'_>,
        mut value: Value,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, &'static str> {
        if let Some(flag) = self.flag_against(place) {
            return Err(flag);
        }
        if place.is("", "secrets") {
            return match self.secrets {
                SecretPolicy::Keep => Ok(bytes),
                SecretPolicy::Drop => Err("--secrets drop"),
                SecretPolicy::Mask => {
                    self.masks.mask(&mut value);
                    Ok(object::encode_stored(&value))
                }
            };
        }
        if !self.is_live {
            return Ok(bytes);
        }
        if place.is("", "nodes") {
            meta::set_annotation(&mut value, SIMULATED, "imported");
            return Ok(object::encode_stored(&value));
        }
        let is_service =
            place.is("apiregistration.k8s.io", "apiservices") && !value["spec"]["service"].is_null();
        match is_service || CALLS.iter().any(|(group, plural)| place.is(group, plural)) {
            true => Err("it calls another program on each write (--live)"),
            false => Ok(bytes),
        }
    }
}

/// The stored form of an object of a custom kind, which keeps its version: the kind's definition says how to convert it.
fn custom(value: &[u8]) -> Result<Vec<u8>, String> {
    if value.starts_with(&MAGIC) {
        return Err("it is stored as protobuf, of a kind that kstore does not have".to_owned());
    }
    let parsed: Value = serde_json::from_slice(value).map_err(|error| format!("it is not JSON: {error}"))?;
    let has_type = !object::api_version(&parsed).is_empty() && !object::kind(&parsed).is_empty();
    if !has_type || !parsed["metadata"].is_object() {
        return Err("it lacks apiVersion, kind or metadata".to_owned());
    }
    Ok(object::encode_stored(&parsed))
}

/// Says which provider and key have encrypted a value: `k8s:enc:PROVIDER:VERSION:KEY:…`.
fn encrypted(value: &[u8]) -> Cow<'static, str> {
    let head = &value[ENCRYPTED.len()..value.len().min(100)];
    let mut parts = head.split(|byte| *byte == b':').map(String::from_utf8_lossy);
    let (provider, _, key) = (parts.next(), parts.next(), parts.next());
    let (provider, key) = (provider.unwrap_or_default(), key.unwrap_or_default());
    format!("it is encrypted by {provider} with key {key:?}").into()
}

/// Plural and group of the kind that a key names, or the first part of a key of other state.
pub(super) fn kind_of(key: &str) -> String {
    match KeyPlace::of(key) {
        Some(KeyPlace { group: "", plural, .. }) => plural.to_owned(),
        Some(KeyPlace { group, plural, .. }) => format!("{plural}.{group}"),
        None => first_part(key).to_owned(),
    }
}

fn first_part(key: &str) -> &str {
    key.strip_prefix(storage_key::ROOT).unwrap_or(key).split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::{BASE64_STANDARD, Engine};
    use kstore_api::kind;
    use serde_json::json;

    fn conversion(secrets: SecretPolicy, is_live: bool, excluded: &[&str]) -> Conversion {
        let excluded = excluded.iter().map(|kind| (*kind).to_owned()).collect();
        Conversion::new(secrets, is_live, excluded, &Rng::seeded(1))
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn flags_choose_kinds_and_namespaces() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let flag = |kinds: &[&str], namespaces: &[&str], key: &str| {
            let conversion =
                conversion(SecretPolicy::Mask, false, &["events"]).only(words(kinds), words(namespaces));
            conversion.flag_against(KeyPlace::of(key).unwrap())
        };
        for (kinds, namespaces, key, expected) in [
            (&[][..], &[][..], "/registry/pods/a/b", None),
            (&["pods"], &[], "/registry/pods/a/b", None),
            (&["pods"], &[], "/registry/secrets/a/b", Some("--kind")),
            (&["pods"], &[], "/registry/namespaces/a", None),
            (&["pods"], &[], "/registry/apiextensions.k8s.io/customresourcedefinitions/a", None),
            (&[], &["a", "c"], "/registry/pods/a/b", None),
            (&[], &["a", "c"], "/registry/pods/b/b", Some("--namespace")),
            (&[], &["a"], "/registry/namespaces/a", None),
            (&[], &["a"], "/registry/namespaces/b", Some("--namespace")),
            (&[], &["a"], "/registry/minions/n", None),
            (&["events"], &["a"], "/registry/events/a/b", Some("--exclude")),
        ] {
            assert_eq!(flag(kinds, namespaces, key), expected, "{kinds:?} {namespaces:?} {key}");
        }
    }

    #[test]
    fn stored_values_are_converted_or_left_out_with_a_reason() {
        let mut plain = conversion(SecretPolicy::Mask, false, &["leases"]);
        let pod = json!({"kind": "Pod", "metadata": {"uid": "u", "namespace": "a", "name": "b"}, "apiVersion": "v1"});
        let kept = plain.convert_stored("/registry/pods/a/b", pod.to_string().as_bytes()).unwrap().bytes;
        let expected =
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"a","uid":"u"}}"#;
        assert_eq!(text(&kept), expected);
        assert_eq!(plain.convert_stored("/registry/pods/a/b", &kept).unwrap().bytes, kept);
        let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"b": 1, "a": 2}});
        let kept =
            plain.convert_stored("/registry/x.io/widgets/w", widget.to_string().as_bytes()).unwrap().bytes;
        let expected =
            r#"{"apiVersion":"x.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"a":2,"b":1}}"#;
        assert_eq!(text(&kept), expected);
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "a"}});
        for (key, value, kind, reason) in [
            ("/registry/pods/a/c", kept_pod(), "pods", "it is stored under the name of another object"),
            ("/registry/pods/a/b", "{}".into(), "pods", "it lacks apiVersion, kind or metadata"),
            (
                "/registry/pods/a/b",
                "k8s:enc:aescbc:v1:old:xx".into(),
                "pods",
                "it is encrypted by aescbc with key \"old\"",
            ),
            (
                "/registry/masterleases/10.0.0.1",
                "x".into(),
                "masterleases",
                "state of an API server, of which kstore has its own",
            ),
            ("/registry/gadgets/a/b", "x".into(), "gadgets", "a kind that kstore does not have"),
            (
                "/registry/x.io/widgets/w",
                "k8s\0x".into(),
                "widgets.x.io",
                "it is stored as protobuf, of a kind that kstore does not have",
            ),
            ("/registry/leases/a/l", lease.to_string(), "leases.coordination.k8s.io", "--exclude"),
        ] {
            let refused = plain.convert_stored(key, value.as_bytes()).unwrap_err();
            assert_eq!((refused.kind.as_str(), &*refused.reason), (kind, reason), "{key}");
        }
        let cbor = plain.convert_stored("/registry/x.io/widgets/w", &[0xd9, 0xd9, 0xf7, 0]).unwrap_err();
        assert!(cbor.reason.contains("CBOR"), "{cbor:?}");
    }

    #[test]
    fn protobuf_of_a_kube_apiserver_becomes_json_of_the_stored_version() {
        let mut plain = conversion(SecretPolicy::Mask, false, &[]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "b", "namespace": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "nginx"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.7"}});
        let message = kstore_api::wire::protobuf::encode(&pod).unwrap();
        assert!(message.starts_with(&MAGIC));
        let kept = plain.convert_stored("/registry/pods/a/b", &message).unwrap().bytes;
        let read: Value = serde_json::from_slice(&kept).unwrap();
        for pointer in [
            "/metadata/uid",
            "/metadata/creationTimestamp",
            "/spec/nodeName",
            "/spec/containers/0/image",
            "/status/podIP",
        ] {
            assert_eq!(read.pointer(pointer), pod.pointer(pointer), "{pointer}");
        }
        let refused = plain.convert_stored("/registry/pods/a/b", &message[..message.len() / 2]).unwrap_err();
        assert!(refused.reason.contains("protobuf"), "{refused:?}");
    }

    /// Values that a kube-apiserver 1.36.2 stored in its etcd: a line has key, value in base64, and the object that the server answered.
    const STORED: &str = include_str!("testdata/kube_apiserver_1_36_2.jsonl");

    #[test]
    fn what_a_kube_apiserver_stored_is_imported_as_it_serves_it() {
        let mut plain = conversion(SecretPolicy::Mask, false, &[]);
        for line in STORED.lines() {
            let (key, stored, mut served): (String, String, Value) = serde_json::from_str(line).unwrap();
            let stored = BASE64_STANDARD.decode(stored).unwrap();
            meta::metadata_mut(&mut served).remove("resourceVersion");
            if key.starts_with("/registry/statefulsets/") {
                // A default since 1.37, whose API an import serves.
                served["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(1);
            }
            let kept = plain.convert_stored(&key, &stored).unwrap().bytes;
            let read: Value = serde_json::from_slice(&kept).unwrap();
            assert_eq!(read, served, "{key}");
        }
        assert_eq!(STORED.lines().count(), 24);
    }

    #[test]
    fn objects_of_a_kube_apiserver_have_the_defaults_that_it_fills_in_when_it_reads_them() {
        let mut plain = conversion(SecretPolicy::Mask, false, &[]);
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "a", "uid": "u"},
            "spec": {"volumeName": "v"}});
        let rule = json!({"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]});
        let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": rule}}});
        for (key, object, pointer, expected) in [
            ("/registry/persistentvolumeclaims/a/c", &claim, "/status/phase", json!("Pending")),
            (
                "/registry/horizontalpodautoscalers/a/h",
                &scaler,
                "/spec/behavior/scaleUp/selectPolicy",
                json!("Max"),
            ),
            ("/registry/horizontalpodautoscalers/a/h", &scaler, "/spec/minReplicas", json!(1)),
        ] {
            let message = kstore_api::wire::protobuf::encode(object).unwrap();
            let kept = plain.convert_stored(key, &message).unwrap().bytes;
            let read: Value = serde_json::from_slice(&kept).unwrap();
            assert_eq!(read.pointer(pointer), Some(&expected), "{pointer}: {read}");
        }
    }

    fn kept_pod() -> String {
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"a"}}"#.to_owned()
    }

    #[test]
    fn secrets_are_masked_kept_or_dropped() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a"},
            "data": {"password": "Y29ycmVjdC1ob3JzZQ=="}});
        let convert = |policy| {
            let mut conversion = conversion(policy, false, &[]);
            conversion
                .convert_stored("/registry/secrets/a/s", secret.to_string().as_bytes())
                .map(|kept| kept.bytes)
        };
        let masked = text(&convert(SecretPolicy::Mask).unwrap());
        assert!(masked.contains("\"password\":") && !masked.contains("Y29ycmVj"), "{masked}");
        assert!(text(&convert(SecretPolicy::Keep).unwrap()).contains("Y29ycmVj"));
        assert_eq!(convert(SecretPolicy::Drop).unwrap_err().reason, "--secrets drop");
    }

    #[test]
    fn a_live_import_marks_nodes_and_leaves_out_what_calls_other_programs() {
        let mut live = conversion(SecretPolicy::Mask, true, &[]);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let kept = live.convert_stored("/registry/minions/n", node.to_string().as_bytes()).unwrap().bytes;
        assert!(
            text(&kept).contains(r#""annotations":{"kubelet-sim.kstore.io/node":"imported"}"#),
            "{}",
            text(&kept)
        );
        let service = |spec: Value| json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.x"}, "spec": spec});
        let key = "/registry/apiregistration.k8s.io/apiservices/v1.x";
        assert!(
            live.convert_stored(key, service(json!({"service": {"name": "s"}})).to_string().as_bytes())
                .is_err()
        );
        live.convert_stored(key, service(json!({"group": ""})).to_string().as_bytes()).unwrap();
    }

    #[test]
    fn objects_of_manifests_become_the_stored_version() {
        let mut plain = conversion(SecretPolicy::Mask, false, &[]);
        let scaler = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "namespace": "a", "resourceVersion": "7", "selfLink": "/x"}, "spec": {"maxReplicas": 3}});
        let row = kind::lookup_api_version("autoscaling/v1", "HorizontalPodAutoscaler").unwrap();
        let key = row.storage_row().storage_key("a", "h");
        let stored = text(&plain.convert_object(Some(row), &key, scaler).unwrap().bytes);
        assert!(
            stored.starts_with(r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler""#),
            "{stored}"
        );
        assert!(!stored.contains("resourceVersion") && !stored.contains("selfLink"), "{stored}");
    }
}
