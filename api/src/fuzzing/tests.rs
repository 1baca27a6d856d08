//! Runs the fuzz targets on random bytes, and on the corpus in `fuzz/corpus`.

use super::TARGETS;
use crate::wire::protobuf;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

/// Seeds for fuzzers: bytes that targets accept to a large part.
fn seeds() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}});
    let texts = ["a,!b,x=1,a!=2", "a in (1,2),b notin (a),x>1", "metadata.name=a,spec.nodeName!=b\\,c"];
    let dice =
        |start: u32| (0..200_u32).map(|at| (at * 37 + start * 101).to_le_bytes()[0] ^ at as u8).collect();
    let mut out = vec![
        ("protobuf", vec![protobuf::encode(&pod).expect("a pod can be encoded")]),
        ("selector", texts.map(|text| text.as_bytes().to_vec()).to_vec()),
    ];
    out.extend(seeds_of_custom_resources());
    let rolled = ["apply", "json_patch", "merge_patch", "protobuf_object", "strategic_patch"];
    out.extend(rolled.map(|target| (target, (1..4).map(dice).collect())));
    out
}

/// Seeds: definitions with objects, expressions, webhook responses, paths.
fn seeds_of_custom_resources() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let definition = |schema: serde_json::Value| {
        json!({"metadata": {"name": "dogs.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
            "names": {"plural": "dogs", "kind": "Dog"}, "versions": [{"name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "A", "type": "integer", "jsonPath": ".spec.a"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}}}]}})
    };
    let object = |spec: serde_json::Value| json!({"apiVersion": "x.dev/v1", "kind": "Dog", "metadata": {"name": "a"}, "spec": spec});
    let typed = json!({"type": "object", "required": ["a"],
        "x-kubernetes-validations": [{"rule": "self.a > 0 && self.l.all(x, x.size() < 3)", "message": "no"}],
        "properties": {"a": {"type": "integer", "default": 1, "minimum": 0},
            "l": {"type": "array", "maxItems": 4, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 9}}}});
    let keyed = json!({"type": "array", "maxItems": 4, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 4},
            "v": {"x-kubernetes-int-or-string": true}, "o": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}});
    let loose = json!({"type": "object", "nullable": true, "additionalProperties": {"anyOf": [{"minimum": 2}, {"not": {"multipleOf": 2}}],
        "type": "number", "default": 1.5}});
    let documents = [
        (typed, json!({"a": 2, "l": ["a", "b"], "x": null}), json!({"a": 1})),
        (
            keyed,
            json!([{"k": "a", "v": 1, "o": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}]),
            json!([{"k": "a"}]),
        ),
        (loose, json!({"a": 3, "b": null}), json!(null)),
    ];
    let structural = documents.map(|(schema, spec, old)| {
        format!("{}{}{}", definition(schema), object(spec), object(old)).into_bytes()
    });
    let expressions = [
        "self.list.all(x, x > 0) && self.map.exists(k, self.map[k] == 'v')",
        "self.items.map(i, i.port + 1).filter(p, p < 3).size() == 1 ? self.b.startsWith('b') : false",
        "has(self.a) && quantity('1Gi').isGreaterThan(quantity('1Mi')) && url('https://x/y').getHost() == 'x'",
        "self.b.find('[a-c]+') != '' || oldSelf.a == self.a",
        "'%s %d'.format([self.b, self.a])",
    ];
    let review = |response: serde_json::Value| {
        let body =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        format!("\0{body}").into_bytes()
    };
    let reviews = [
        json!({"uid": "u", "allowed": true, "warnings": ["w"], "auditAnnotations": {"a": "b"}}),
        json!({"uid": "u", "allowed": false, "status": {"code": 403, "message": "no", "details": {"causes": [{"field": "a"}]}}}),
        // [{"op":"add","path":"/data/c","value":"d"}]
        json!({"uid": "u", "allowed": true, "patchType": "JSONPatch",
            "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEvYyIsInZhbHVlIjoiZCJ9XQ=="}),
    ];
    let converted = |objects: serde_json::Value| {
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": objects}});
        format!("\0{body}").into_bytes()
    };
    let dog = |name: &str| {
        json!({"apiVersion": "x.dev/v2", "kind": "Dog", "spec": {"b": 2},
            "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"a": "c"}}})
    };
    let paths = [
        ".spec.a\n{\"spec\": {\"a\": 5}}",
        ".a[?(@.b == \"x\")].c\n{\"a\": [{\"b\": \"x\", \"c\": \"2024-02-29T23:59:59Z\"}]}",
        "..b[0,2]['a','b'][1:-1:2].*\n{\"b\": [[1, 2], {\"a\": true}]}",
    ];
    vec![
        ("structural", structural.to_vec()),
        ("expression", expressions.map(|text| text.as_bytes().to_vec()).to_vec()),
        ("admission_review", reviews.map(review).to_vec()),
        ("conversion_review", vec![converted(json!([dog("a")])), converted(json!([dog("a"), dog("c")]))]),
        ("json_path", paths.map(|text| text.as_bytes().to_vec()).to_vec()),
    ]
}

/// Seeds must be accepted, since a fuzzer learns nothing from bytes that are refused at once.
#[test]
fn seeds_of_definitions_and_expressions_are_valid() {
    for (target, seeds) in seeds_of_custom_resources() {
        for (at, seed) in seeds.iter().enumerate() {
            let errors = match target {
                "structural" => {
                    let mut documents =
                        serde_json::Deserializer::from_slice(seed).into_iter::<serde_json::Value>();
                    let mut definition = documents.next().unwrap().unwrap();
                    crate::crd::strategy::set_defaults(&mut definition);
                    crate::crd::strategy::prepare_create(&mut definition);
                    assert_eq!(documents.filter_map(Result::ok).count(), 2);
                    crate::crd::validate::create(&definition).aggregate()
                }
                // The last seed is about the old object, which only rules have.
                "expression" if at < 3 => {
                    let env = crate::expression::base::environment().extend();
                    let env = env.variable("self", kstore_cel::Type::Dyn).build();
                    let compiled = env.compile(std::str::from_utf8(seed).unwrap());
                    compiled.err().map_or_else(|| "[]".to_owned(), |errors| errors.to_string())
                }
                _ => continue,
            };
            assert_eq!(errors, "[]", "{target} {at}");
        }
    }
}

/// If `KSTORE_WRITE_CORPUS` is set, first writes the seeds to the corpus.
#[test]
fn fuzz_targets_pass_on_the_stored_corpus() {
    if std::env::var_os("KSTORE_WRITE_CORPUS").is_some() {
        for (target, seeds) in seeds() {
            fs::create_dir_all(corpus(target)).unwrap();
            for (at, seed) in seeds.iter().enumerate() {
                fs::write(corpus(target).join(format!("seed-{at}")), seed).unwrap();
            }
        }
    }
    let mut files = 0;
    for (target, run) in TARGETS {
        for entry in fs::read_dir(corpus(target)).into_iter().flatten() {
            run(&fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
    }
    assert!(files > 8, "the corpus was found: {files} files");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn fuzz_targets_pass_on_random_bytes(bytes in vec(any::<u8>(), 0..600)) {
        TARGETS.iter().for_each(|(_, run)| run(&bytes));
    }

    #[test]
    fn fuzz_targets_pass_on_selector_texts(text in "[abx!=<>(), in12\\\\.-]{0,24}") {
        super::selectors(text.as_bytes());
    }

    #[test]
    fn fuzz_targets_pass_on_path_texts(text in "[a.*@?()\\[\\]0-2:,'\"=<> -]{0,24}") {
        super::custom::json_path(text.as_bytes());
    }

    #[test]
    fn fuzz_targets_pass_on_damaged_seeds(at in any::<u16>(), flip in 1u8..) {
        for (target, seeds) in seeds() {
            let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
            for mut seed in seeds {
                let len = seed.len().max(1);
                if let Some(byte) = seed.get_mut(usize::from(at) % len) {
                    *byte ^= flip;
                }
                run(&seed);
            }
        }
    }
}
