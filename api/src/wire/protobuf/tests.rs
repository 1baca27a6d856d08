//! Tests of the protobuf codec: golden bytes, and round trips of generated objects.

use super::{MAGIC, WireError, decode, encode, watch_frame};
use crate::schema::decode::{Mode, normalize};
use crate::schema::{self, Elem, Field, Shape, Type};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A length-delimited field; number and length are below 128.
fn field(number: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    assert!(number < 16 && contents.len() < 128);
    out.push(contents.len() as u8);
    out.extend_from_slice(contents);
    out
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

#[test]
fn config_maps_are_decoded_from_golden_bytes() {
    // ObjectMeta as Go writes it: with empty strings, generation 0 and the zero creation time.
    let mut meta =
        [field(1, b"cm"), field(2, b""), field(3, b"default"), field(4, b""), field(5, b"")].concat();
    meta.extend([field(6, b""), number(7, 0), field(8, b"")].concat());
    let entry = [field(1, b"key"), field(2, b"value")].concat();
    let blob = [field(1, b"bin"), field(2, &[0, 255])].concat();
    let raw = [field(1, &meta), field(2, &entry), field(3, &blob), number(4, 1)].concat();
    let (found, object) = decode(&envelope("v1", "ConfigMap", &raw)).unwrap();
    assert_eq!((found.api_version.as_str(), found.kind.as_str()), ("v1", "ConfigMap"));
    let want = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "default"},
        "data": {"key": "value"}, "binaryData": {"bin": "AP8="}, "immutable": true});
    assert_eq!(object, want);
}

#[test]
fn scalars_encoded_as_messages_are_decoded() {
    // Service port: targetPort is an IntOrString with a string, nodePort an explicit zero.
    let port_name = [number(1, 1), number(2, 0), field(3, b"web")].concat();
    let port = [field(1, b""), field(2, b"TCP"), number(3, 80), field(4, &port_name), number(5, 0)].concat();
    let raw = field(2, &[field(1, &port), field(3, b"10.0.0.1")].concat());
    let (_, service) = decode(&envelope("v1", "Service", &raw)).unwrap();
    let want = json!([{"port": 80, "protocol": "TCP", "targetPort": "web"}]);
    assert_eq!((&service["spec"]["ports"], &service["spec"]["clusterIP"]), (&want, &json!("10.0.0.1")));

    // creationTimestamp 100 s after the epoch; a claim asking for 1024Mi.
    let time = [number(1, 100), number(2, 0)].concat();
    let storage = [field(1, b"storage"), field(2, &field(1, b"1024Mi"))].concat();
    let spec = [field(1, b"ReadWriteOnce"), field(2, &field(2, &storage))].concat();
    let raw = [field(1, &field(8, &time)), field(2, &spec)].concat();
    let (_, claim) = decode(&envelope("v1", "PersistentVolumeClaim", &raw)).unwrap();
    assert_eq!(claim["metadata"]["creationTimestamp"], "1970-01-01T00:01:40Z");
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
}

#[test]
fn user_infos_with_extra_values_survive_the_round_trip() {
    // The body of `kubectl auth whoami`: each list of values is a message of its own (ExtraValue).
    let values = [field(1, b"a"), field(1, b"b")].concat();
    let user = [field(1, b"u"), field(4, &[field(1, b"k"), field(2, &values)].concat())].concat();
    let raw = field(2, &field(1, &user));
    let (_, review) = decode(&envelope("authentication.k8s.io/v1", "SelfSubjectReview", &raw)).unwrap();
    let want = json!({"username": "u", "extra": {"k": ["a", "b"]}});
    assert_eq!(review["status"]["userInfo"], want);
    let (_, again) = decode(&encode(&review).unwrap()).unwrap();
    assert_eq!(again["status"]["userInfo"], want);
}

#[test]
fn inlined_structs_are_nested_messages() {
    // Volume{name, volumeSource{emptyDir{medium}}} and a packed list of group ids.
    let volume = [field(1, b"tmp"), field(2, &field(2, &field(1, b"Memory")))].concat();
    let security = field(4, &[5, 7]);
    let raw = field(2, &[field(1, &volume), field(14, &security)].concat());
    let (_, pod) = decode(&envelope("v1", "Pod", &raw)).unwrap();
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "tmp", "emptyDir": {"medium": "Memory"}}]));
    assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([5, 7]));
}

#[test]
fn encoded_bytes_match_those_of_go() {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": ["All"],
        "preconditions": {"uid": "u"}});
    let raw = [number(1, 0), field(2, &field(1, b"u")), field(5, b"All")].concat();
    assert_eq!(encode(&options).unwrap(), envelope("v1", "DeleteOptions", &raw));
    let frame = watch_frame("ADDED", b"x");
    assert_eq!(frame, [vec![0, 0, 0, 12], field(1, b"ADDED"), field(2, &field(1, b"x"))].concat());
}

#[test]
fn unsupported_bodies_are_refused_with_their_reason() {
    assert_eq!(decode(b"{}").unwrap_err(), WireError::NotEnveloped);
    assert_eq!(decode(b"k8s\0\x0a\x7f").unwrap_err(), WireError::Truncated);
    let unknown = decode(&envelope("example.com/v1", "Foo", b"")).unwrap_err();
    assert_eq!(unknown.to_string(), "no kind \"Foo\" is registered for version \"example.com/v1\" in scheme");
    let wrong = decode(&envelope("v1", "Pod", &number(1, 1))).unwrap_err();
    assert_eq!(wrong, WireError::WireType { wire: 0, number: 1 });
}

#[test]
fn small_bodies_cannot_decode_into_unbounded_memory() {
    // Two bytes per item: a list of 600 000 empty pods.
    let items: Vec<u8> = [2 << 3 | 2, 0].repeat(600_000);
    let length =
        [2 << 3 | 2, items.len() as u8 | 0x80, (items.len() >> 7) as u8 | 0x80, (items.len() >> 14) as u8];
    let meta = [field(1, b"v1"), field(2, b"PodList")].concat();
    let body = [MAGIC.to_vec(), field(1, &meta), length.to_vec(), items].concat();
    assert_eq!(decode(&body).unwrap_err(), WireError::TooLarge);

    // A JSON schema nested a thousand deep.
    let mut schema = Vec::new();
    for _ in 0..1000 {
        let mut outer = vec![28 << 3 & 0x7f | 2 | 0x80, 1];
        let length = schema.len();
        outer.extend([length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8]);
        outer.extend(&schema);
        schema = outer;
    }
    let ty = schema::json_schema_props();
    assert_eq!(super::decode::message(&schema, ty).unwrap_err(), WireError::TooLarge);
}

#[test]
fn bytes_of_kubectl_create_deployment_survive_the_round_trip() {
    // kubectl 1.32: create deployment web --image=nginx:1.2 --replicas=3 --port=80
    let hex = "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412bc010a1f0a0377656212001a0022002a003200380042\
        005a0a0a036170701203776562128a010803120c0a0a0a0361707012037765621a700a1c0a0012001a0022002a0032003800\
        42005a0a0a036170701203776562125012320a056e67696e7812096e67696e783a312e322a00320a0a001000185022002a00\
        42006a007200800100880100900100a201001a00320042004a0052005800600068008201008a01009a0100c2010022020a00\
        280038001a0c0800100018002000280038001a002200";
    let bytes: Vec<u8> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let (_, object) = decode(&bytes).unwrap();
    let labels = json!({"app": "web"});
    let container = json!({"image": "nginx:1.2", "name": "nginx", "ports": [{"containerPort": 80}]});
    let want = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": labels, "name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
    assert_eq!(object, want);
    assert_eq!(encode(&object).unwrap(), bytes);
}

/// Generator of random values of a type, up to a depth, from a seed.
struct Generator {
    state: u64,
}

impl Generator {
    fn next(&mut self, bound: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % bound
    }

    fn object(&mut self, ty: &'static Type, depth: usize) -> Value {
        let mut map = Map::new();
        for field in ty.fields {
            if self.next(3) == 0 && field.number != 0 {
                map.insert(field.name.to_owned(), self.member(field, depth));
            }
        }
        Value::Object(map)
    }

    fn member(&mut self, field: &'static Field, depth: usize) -> Value {
        let count = self.next(3);
        match field.shape {
            Shape::One => self.elem(field.elem, depth),
            Shape::List => (0..count).map(|_| self.elem(field.elem, depth)).collect(),
            Shape::Map => {
                Value::Object((0..count).map(|at| (format!("k{at}"), self.elem(field.elem, depth))).collect())
            }
        }
    }

    fn elem(&mut self, elem: Elem, depth: usize) -> Value {
        match elem {
            Elem::String => json!(["", "a", "ü/b"][self.next(3) as usize]),
            Elem::Bool => json!(self.next(2) == 1),
            Elem::Int32 => json!(self.next(5) as i32 - 2),
            Elem::Int64 => json!([0, -1, i64::MAX, i64::MIN][self.next(4) as usize]),
            Elem::Float64 => json!([0.0, -1.5, 1e300][self.next(3) as usize]),
            Elem::Bytes => json!(["", "AP8=", "eA=="][self.next(3) as usize]),
            Elem::Time => json!(["2024-02-29T23:59:59Z", "1969-12-31T23:59:59Z"][self.next(2) as usize]),
            Elem::MicroTime => {
                json!(["2024-02-29T23:59:59.000001Z", "1969-12-31T23:59:59.999999Z"][self.next(2) as usize])
            }
            Elem::Quantity => json!(["0", "1500m", "3Gi", "2e3"][self.next(4) as usize]),
            Elem::IntOrString => {
                [json!(0), json!(-7), json!("25%"), json!("")][self.next(4) as usize].clone()
            }
            Elem::Raw | Elem::FieldsV1 => json!({"f:spec": {"k": [1, null]}}),
            Elem::Json => [json!("x"), json!({"a": 1}), json!([true])][self.next(3) as usize].clone(),
            Elem::Items => json!(["get", ""]),
            Elem::SchemaOrList => json!([{"type": "string"}]),
            Elem::SchemaOrBool => {
                [json!(true), json!(false), json!({"type": "object"})][self.next(3) as usize].clone()
            }
            Elem::SchemaOrStrings => [json!(["a"]), json!({"type": "object"})][self.next(2) as usize].clone(),
            Elem::Struct(_) if depth == 0 => json!({}),
            Elem::Struct(id) => self.object(id.get(), depth - 1),
        }
    }
}

/// Removes empty lists and maps, which protobuf cannot distinguish from absent ones.
fn without_empty(value: &mut Value, ty: &'static Type) {
    let Value::Object(map) = value else { return };
    map.retain(|name, value| {
        let Some(field) = ty.field(name) else { return true };
        if let Some(nested) = field.struct_type() {
            match (field.shape, &mut *value) {
                (Shape::One, value) => without_empty(value, nested),
                (Shape::List, Value::Array(items)) => items.iter_mut().for_each(|v| without_empty(v, nested)),
                (Shape::Map, Value::Object(map)) => map.values_mut().for_each(|v| without_empty(v, nested)),
                (Shape::List | Shape::Map, _) => {}
            }
        }
        let empty =
            value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
        !(empty && (field.shape != Shape::One || field.elem == Elem::Items || !field.pointer))
    });
}

proptest! {
    #[test]
    fn objects_of_every_kind_survive_the_round_trip(seed in any::<u64>(), pick in any::<prop::sample::Index>()) {
        let kinds: Vec<&'static Type> = schema::all().filter(|t| t.has_kind).collect();
        let ty = kinds[pick.index(kinds.len())];
        let mut object = Generator { state: seed }.object(ty, 5);
        normalize(&mut object, ty, Mode::Whole).unwrap();
        without_empty(&mut object, ty);
        let p = ty.package;
        let api_version = if p.group.is_empty() { p.version.to_owned() } else { format!("{}/{}", p.group, p.version) };
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(ty.name);
        let bytes = encode(&object).unwrap();
        let (_, back) = decode(&bytes).unwrap();
        prop_assert_eq!(&back, &object);
        prop_assert_eq!(encode(&back).unwrap(), bytes);
    }

    #[test]
    fn decoding_arbitrary_bytes_never_panics(raw in prop::collection::vec(any::<u8>(), 0..64), kind in "Pod|Deployment|Secret|Lease|Event") {
        let group = match kind.as_str() { "Deployment" => "apps/v1", "Lease" => "coordination.k8s.io/v1", _ => "v1" };
        let _ = decode(&envelope(group, &kind, &raw));
        let _ = decode(&[MAGIC.to_vec(), raw].concat());
    }

    #[test]
    fn decoding_damaged_messages_never_panics(seed in any::<u64>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let ty = schema::of("", "v1", "Pod").unwrap();
        let mut object = Generator { state: seed }.object(ty, 5);
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("Pod");
        let mut bytes = encode(&object).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(&bytes);
        let _ = decode(&bytes[..at]);
    }
}
