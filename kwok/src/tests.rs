//! Stages of the shapes that KWOK ships, and what they do to objects.

use crate::jq::Query;
use crate::{Addresses, Effect, Kind, PatchForm, StageFunctions, StageSet};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

struct Fixed;

impl Addresses for Fixed {
    fn node(&self, node: &str) -> Option<String> {
        (node == "n").then(|| "172.30.0.1".to_owned())
    }
    fn pod(&self, node: &str, uid: &str) -> Option<String> {
        (node == "n" && !uid.is_empty()).then(|| "10.128.0.5".to_owned())
    }
}

fn set(text: &str) -> Result<StageSet, Vec<String>> {
    let documents = text.split("\n---\n").map(|text| serde_yaml_ng::from_str(text).unwrap());
    let documents: Vec<Value> = documents.collect();
    StageSet::read(documents.iter().map(|document| ("x.yaml", document)))
}

fn kind(kind: &str) -> Kind {
    Kind { api_version: "v1".to_owned(), kind: kind.to_owned() }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

/// The name of the stage that an object follows, and all its effects.
fn played(set: &StageSet, object: &Value) -> Option<(String, Vec<Effect>)> {
    let lifecycle = set.lifecycle(&kind(object["kind"].as_str().unwrap()))?;
    let stage = lifecycle.stage(lifecycle.choose(object, 0).unwrap()?)?;
    let functions = StageFunctions { now: now(), start: now(), version: "v1", object, addresses: &Fixed };
    let effects = (0..stage.steps()).filter_map(|step| stage.effect(step, object, &functions).unwrap());
    Some((stage.name().to_owned(), effects.collect()))
}

const FAST: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ['True']}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      - lastTransitionTime: {{ $now | Quote }}
        status: "True"
        type: Ready
      {{ range .spec.readinessGates }}
      - {type: {{ .conditionType | Quote }}, status: "True"}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - image: {{ .image | Quote }}
        name: {{ .name | Quote }}
        ready: true
        restartCount: 0
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
      initContainerStatuses:
      {{ range .spec.initContainers }}
      - name: {{ .name | Quote }}
        {{ if eq .restartPolicy "Always" }}
        started: true
        {{ else }}
        started: false
        {{ end }}
      {{ end }}
      {{ $hostIPs := NodeIPsWith .spec.nodeName }}
      {{ with $hostIPs }}
      hostIP: {{ index . 0 | Quote }}
      {{ end }}
      {{ $podIPs := PodIPsWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
      {{ with $podIPs }}
      podIP: {{ index . 0 | Quote }}
      podIPs:
      {{ range . }}
      - ip: {{ . | Quote }}
      {{ end }}
      {{ end }}
      phase: Running
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: complete}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.ownerReferences.[].kind', operator: In, values: [Job]}
  next:
    event: {type: Normal, reason: Done, message: done}
    statusTemplate: "phase: Succeeded"
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
  next: {finalizers: {remove: [{value: a}], add: [{value: b}]}, delete: true}
"#;

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i:1"}],
                 "initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
                 "readinessGates": [{"conditionType": "g/x"}]},
        "status": {"phase": "Pending"},
    })
}

#[test]
fn a_pod_becomes_ready_completes_and_is_deleted_as_with_kwok() {
    let set = set(FAST).unwrap();
    let (name, effects) = played(&set, &pod()).unwrap();
    let [Effect::Patch { subresource, form: PatchForm::Strategic, body }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((&*name, &**subresource), ("ready", "status"));
    let status = &body["status"];
    let at = now().to_string();
    assert_eq!(status["conditions"][0], json!({"type": "Ready", "status": "True", "lastTransitionTime": at}));
    assert_eq!(status["conditions"][1], json!({"type": "g/x", "status": "True"}));
    assert_eq!(
        status["containerStatuses"],
        json!([{"name": "c", "image": "i:1", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": at}}}])
    );
    assert_eq!(
        status["initContainerStatuses"],
        json!([{"name": "a", "started": false}, {"name": "b", "started": true}])
    );
    assert_eq!(
        (&status["hostIP"], &status["podIPs"]),
        (&json!("172.30.0.1"), &json!([{"ip": "10.128.0.5"}]))
    );

    let mut running = pod();
    running["status"] = json!({"phase": "Running"});
    assert_eq!(played(&set, &running), None, "only pods of Jobs complete");
    running["metadata"]["ownerReferences"] = json!([{"kind": "Job"}]);
    let (name, effects) = played(&set, &running).unwrap();
    assert_eq!((&*name, effects.len()), ("complete", 2));
    assert!(matches!(&effects[0], Effect::Event { reason, .. } if reason == "Done"), "{effects:?}");

    running["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    running["metadata"]["finalizers"] = json!(["a", "c"]);
    let (_, effects) = played(&set, &running).unwrap();
    let finalizers = json!({"metadata": {"finalizers": ["b"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert!(
        matches!(&effects[..], [Effect::Patch { body, .. }, Effect::Delete] if *body == finalizers),
        "{effects:?}"
    );
}

#[test]
fn a_node_is_initialized_and_keeps_what_it_has() {
    let text = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: initialize}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions: [{key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ['True']}]
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $lastTransitionTime := or .metadata.creationTimestamp $now }}
      conditions:
      {{ range NodeConditions }}
      - {type: {{ .type | Quote }}, status: {{ .status | Quote }}, reason: {{ .reason | Quote }}, lastTransitionTime: {{ $lastTransitionTime | Quote }}}
      {{ end }}
      {{ $hasHostname := false }}
      {{ range .status.addresses }}{{ if eq .type "Hostname" }}{{ $hasHostname = true }}{{ end }}{{ end }}
      addresses:
      {{ with NodeIP }}
      - {address: {{ . | Quote }}, type: InternalIP}
      {{ end }}
      {{ if not $hasHostname }}
      - {address: {{ NodeName | Quote }}, type: Hostname}
      {{ end }}
      allocatable:
      {{ with .status.allocatable }}
      {{ YAML . 1 }}
      {{ else }}
        cpu: 1k
        memory: 1Ti
        pods: 1M
      {{ end }}
      {{ $nodeInfo := .status.nodeInfo }}
      {{ $version := printf "kwok-%s" Version }}
      nodeInfo:
        kubeletVersion: {{ or $nodeInfo.kubeletVersion $version }}
        bootID: {{ or $nodeInfo.bootID `""` }}
      port: {{ NodePort }}
      phase: Running
"#;
    let set = set(text).unwrap();
    let bare = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let Some((_, effects)) = played(&set, &bare) else { panic!("no stage") };
    let [Effect::Patch { body, .. }] = &effects[..] else { panic!("{effects:?}") };
    let status = &body["status"];
    assert_eq!(status["conditions"].as_array().unwrap().len(), 5);
    assert_eq!(status["addresses"][0], json!({"address": "172.30.0.1", "type": "InternalIP"}));
    assert_eq!(status["allocatable"], json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"}));
    assert_eq!(status["nodeInfo"], json!({"kubeletVersion": "kwok-v1", "bootID": ""}));
    let mut full = bare;
    full["status"] = json!({
        "allocatable": {"cpu": "4", "memory": "8Gi"}, "nodeInfo": {"kubeletVersion": "v9", "bootID": "b"},
        "addresses": [{"type": "Hostname", "address": "h"}], "conditions": [{"type": "Ready", "status": "False"}],
    });
    let (_, effects) = played(&set, &full).unwrap();
    let [Effect::Patch { body, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(body["status"]["allocatable"], json!({"cpu": "4", "memory": "8Gi"}));
    assert_eq!(body["status"]["nodeInfo"], json!({"kubeletVersion": "v9", "bootID": "b"}));
    full["status"]["conditions"][0]["status"] = json!("True");
    assert_eq!(played(&set, &full), None);
}

#[test]
fn steps_apply_and_patch_other_kinds_that_cel_selects() {
    let text = r"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: provision}
spec:
  resourceRef: {apiGroup: v1, kind: PersistentVolumeClaim}
  selector:
    matchExpressions:
    - cel: {expression: self.spec.storageClassName == 'sim'}
    - cel: {expression: '!has(self.spec.volumeName)'}
  steps:
  - apply:
      template: |
        apiVersion: v1
        kind: PersistentVolume
        metadata: {name: pvc-{{ .metadata.uid }}}
        spec:
          accessModes:
          {{ YAML .spec.accessModes 2 }}
          volumeMode: {{ default `Filesystem` .spec.volumeMode | Quote }}
  - patch: {root: metadata, type: json, template: '[{op: add, path: /labels, value: {a: b}}]'}
  - patch: {root: status, subresource: status, template: 'phase: Bound'}
";
    let set = set(text).unwrap();
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"uid": "u"},
        "spec": {"storageClassName": "sim", "accessModes": ["ReadWriteOnce"]},
    });
    let (_, effects) = played(&set, &claim).unwrap();
    let [
        Effect::Apply { form: PatchForm::Apply, body: volume, .. },
        Effect::Patch { form: PatchForm::Json, body: labels, .. },
        Effect::Patch { form: PatchForm::Merge, body: status, .. },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(volume["spec"], json!({"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}));
    assert_eq!(*labels, json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]));
    assert_eq!(*status, json!({"status": {"phase": "Bound"}}));
    let mut other = claim;
    other["spec"]["storageClassName"] = json!("fast");
    assert_eq!(played(&set, &other), None);
}

/// A stage of pods with these members of its spec.
fn stage(name: &str, members: &str) -> String {
    format!(
        "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: {name}}}\n\
         spec: {{resourceRef: {{kind: Pod}}, selector: {{}}, {members}}}"
    )
}

#[test]
fn delays_are_between_duration_and_jitter_and_expressions_come_first() {
    let delay = |members: &str, object: &Value, draw: u64| {
        let set = set(&stage("s", &format!("delay: {{{members}}}"))).unwrap();
        set.lifecycle(&kind("Pod")).unwrap().stage(0).unwrap().delay(object, now(), draw)
    };
    let annotated = json!({"kind": "Pod", "metadata": {
        "annotations": {"d": "7s"}, "deletionTimestamp": (now() + Duration::from_secs(30)).to_string(),
    }});
    let from = "durationMilliseconds: 1000, durationFrom: {expressionFrom: '.metadata.annotations[\"d\"]'}";
    let seconds = |seconds: u64| Duration::from_secs(seconds);
    for (members, draw, expected) in [
        ("durationMilliseconds: 1000", 5, seconds(1)),
        ("durationMilliseconds: 3000, jitterDurationMilliseconds: 2000", 5, seconds(2)),
        ("durationMilliseconds: 1000, jitterDurationMilliseconds: 5000", 0, seconds(1)),
        ("durationMilliseconds: 1000, jitterDurationMilliseconds: 5000", 3_000_000_000, seconds(4)),
        (from, 0, seconds(7)),
        ("durationFrom: {cel: {expression: \"duration('90s')\"}}", 0, seconds(90)),
        (
            "durationMilliseconds: 1000, jitterDurationFrom: {jq: {expression: .metadata.deletionTimestamp}}",
            28_999_999_999,
            Duration::from_nanos(29_999_999_999),
        ),
    ] {
        assert_eq!(delay(members, &annotated, draw), expected, "{members}");
    }
    assert_eq!(
        delay(from, &json!({"kind": "Pod"}), 0),
        seconds(1),
        "the constant where there is no annotation"
    );
}

#[test]
fn weights_choose_as_often_as_they_say() {
    let three = [stage("a", "weight: 1"), stage("b", "weight: 3"), stage("c", "weight: 0")].join("\n---\n");
    let set = set(&three).unwrap();
    let lifecycle = set.lifecycle(&kind("Pod")).unwrap();
    let mut counts = [0; 3];
    for draw in 0..400 {
        counts[lifecycle.choose(&json!({"kind": "Pod"}), draw).unwrap().unwrap()] += 1;
    }
    assert_eq!(counts, [100, 300, 0]);
    // A weight from an annotation that is no number counts like none; without weights each is as likely.
    let from = "weightFrom: {expressionFrom: '.metadata.annotations.w'}";
    let two = [stage("a", from), stage("b", "weight: 0")].join("\n---\n");
    let set = super::tests::set(&two).unwrap();
    let lifecycle = set.lifecycle(&kind("Pod")).unwrap();
    let chosen = |object: &Value| {
        (0..4).map(|draw| lifecycle.choose(object, draw).unwrap().unwrap()).collect::<Vec<_>>()
    };
    let annotated = |text: &str| json!({"metadata": {"annotations": {"w": text}}});
    assert_eq!(chosen(&annotated("x")), [1, 1, 1, 1]);
    assert_eq!(chosen(&annotated("9")), [0, 0, 0, 0]);
    assert_eq!(chosen(&json!({})), [0, 1, 0, 1]);
}

#[test]
fn what_is_not_supported_is_refused_with_file_stage_and_line() {
    for (text, problem) in [
        (
            stage("a", "next: {statusTemplate: \"\\n\\na: b\\nc: {{ genCA }}\"}"),
            "spec.next.statusTemplate:2: function \"genCA\" is not supported",
        ),
        (
            stage("a", "next: {patches: [{template: '{{ .a'}]}"),
            "spec.next.patches[0].template:1: \"{{\" has no \"}}\"",
        ),
        (stage("a", "weigth: 3"), "unknown field `weigth`"),
        (
            stage("a", "weightFrom: {expressionFrom: '.a | test(\"x\")'}"),
            "spec.weightFrom: jq \".a | test(\\\"x\\\")\": \"test\" is not supported",
        ),
        (
            stage("a", "delay: {durationFrom: {}}"),
            "spec.delay.durationFrom: give one of jq, cel and expressionFrom",
        ),
        (stage("a", "weightFrom: {cel: {expression: 'self +'}}"), "spec.weightFrom: cel"),
        (
            stage("a", "").replace("selector: {}", "selector: {matchExpressions: [{key: .a, operator: In}]}"),
            "spec.selector.matchExpressions[0]: operator In needs values",
        ),
        (
            stage("a", "").replace("kind: Stage", "kind: ClusterResourceUsage"),
            "only stages of KWOK are supported: pods without stages use",
        ),
        (
            stage("a", "").replace("kwok.x-k8s.io/v1alpha1", "v1"),
            "give other objects to kubectl or --manifest",
        ),
        (stage("a", "").replace("kwok.x-k8s.io", "config.kwok.x-k8s.io"), "give the server's flags instead"),
        (
            stage("a", "next: {statusTemplate: 'a: b', statusPatchAs: {username: u}}")
                .replace("kind: Pod", "kind: Service"),
            "impersonation is supported for Pods and Nodes only",
        ),
    ] {
        let problems = set(&text).unwrap_err();
        let [found] = &problems[..] else { panic!("{problems:?}") };
        assert!(
            found.starts_with("x.yaml: ") && found.contains("\"a\": ") && found.contains(problem),
            "{found}\n{problem}"
        );
    }
    let many: Vec<String> = (0..1001).map(|_| stage("a", "weight: 1")).collect();
    assert_eq!(set(&many.join("\n---\n")).unwrap_err(), ["1001 stages are more than 1000"]);
}

#[test]
fn expressions_of_jq_give_what_jq_gives() {
    let input = json!({
        "a": {"b-c": [1, 2, {"d": "x"}]}, "n": null, "f": false, "t": "Go",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}],
    });
    for (text, expected) in [
        (".", Some(vec![input.clone()])),
        (".a[\"b-c\"][0], .a[\"b-c\"][-1].d", Some(vec![json!(1), json!("x")])),
        (".a.\"b-c\"|length", Some(vec![json!(3)])),
        (".conditions.[] | select( .type == \"Ready\" ) | .status", Some(vec![json!("True")])),
        (
            ".conditions[] | select(.type != \"Ready\" and .status == \"False\").type",
            Some(vec![json!("Disk")]),
        ),
        (".n.deep.er", Some(vec![])),
        (".missing // .t", Some(vec![json!("Go")])),
        (".f // .n // \"end\"", Some(vec![json!("end")])),
        (".t | ascii_downcase | startswith(\"g\")", Some(vec![json!(true)])),
        (".conditions | map(.type) | join(\"-\")", Some(vec![json!("Ready-Disk")])),
        (".conditions | any(.status == \"True\")", Some(vec![json!(true)])),
        ("[.a]", None),
        (".t.x", None),
        (".t[]", None),
        (".t[]?", Some(vec![])),
        ("(.a | keys)[0]", Some(vec![json!("b-c")])),
        (".f or .t, (.f and .t), (.f | not)", Some(vec![json!(true), json!(false), json!(true)])),
        ("\"3\" | tonumber | . >= 3", Some(vec![json!(true)])),
        ("[] | length", None),
    ] {
        let mut left = usize::MAX;
        let found = Query::parse(text).ok().and_then(|query| {
            let outputs = query.run(&input, &mut left)?;
            Some(outputs.into_iter().map(std::borrow::Cow::into_owned).collect::<Vec<_>>())
        });
        assert_eq!(found, expected, "{text}");
    }
    for text in [
        "",
        ".a |",
        "reduce .[] as $x (0; .)",
        ".a[",
        ".a as $x",
        "test(\"x\")",
        ".a[1:2]",
        "\"a\\(.b)\"",
        "..",
    ] {
        assert!(Query::parse(text).is_err(), "{text}");
    }
}

/// A run that uses up what it may, with the bytes that it holds at the end, and the steps that it took.
fn spent(text: &str, input: &Value) -> (usize, usize) {
    let (most, query) = (1_000_000, Query::parse(text).unwrap());
    let mut left = most;
    let outputs = query.run(input, &mut left).unwrap_or_default();
    (outputs.iter().map(|value| value.to_string().len()).sum(), most - left)
}

#[test]
fn copies_of_large_values_are_counted_by_their_bytes() {
    let input = json!({"a": ["x".repeat(100_000)], "b": vec!["y"; 1000]});
    let doubled = "(.,.)".repeat(16).replace(")(", ")|(");
    for text in [
        format!("{doubled}|tostring"),
        format!("{doubled}|.a|map(.)"),
        format!("tostring|{doubled}"),
        format!("(.a|map(.))|{doubled}|select(true)"),
        format!("{doubled}|.b|join(\"{}\")", "z".repeat(10_000)),
        format!("{doubled}|.a == .a"),
        format!("{doubled}|.a[0]|ascii_upcase"),
        format!("{doubled}|.b|add"),
    ] {
        let (bytes, steps) = spent(&text, &input);
        assert!(bytes <= 7_000_000 && steps <= 100_000, "{text}: {bytes} bytes, {steps} steps");
        assert!(bytes == 0 || steps >= bytes / 100, "{text}: {bytes} bytes in {steps} steps");
    }
    assert_eq!(spent(".b|length", &input).0, 4, "what is modest is not refused");
}

#[test]
fn expressions_are_bounded_in_parts_so_that_no_stack_is_used_up() {
    let long = |part: &str, between: &str| vec![part; 100_000].join(between);
    for text in [
        long(".", "//"),
        long(".", ","),
        long(".", " or "),
        long(".", " and "),
        long(".", "|"),
        format!(".{}", "[0]".repeat(100_000)),
        format!(".{}", "?".repeat(100_000)),
        format!(".{}", ".a".repeat(100_000)),
        "(".repeat(100_000),
        "select(".repeat(100_000),
        format!("{}.{}", "(".repeat(60), ".a)".repeat(60)) + &"?".repeat(1000),
    ] {
        let problem = Query::parse(&text).unwrap_err();
        assert!(problem.contains("more than"), "{}", &problem[problem.len() - 100..]);
    }
    // The deepest that is read also runs, on a small stack.
    let deepest = [vec!["."; 200].join("//"), vec!["."; 200].join(" or "), format!(".{}", ".a?".repeat(120))];
    let run = move || {
        for text in &deepest {
            let mut left = usize::MAX;
            let _ = Query::parse(text).unwrap().run(&json!({}), &mut left);
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn selectors_that_take_too_much_work_select_nothing() {
    let heavy = "key: '(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)', operator: DoesNotExist";
    let cel = "cel: {expression: 'self.l.all(a, self.l.all(b, self.l.all(c, a == b || b == c || true)))'}";
    let of = |expression: &str| {
        let one = |number: usize| {
            format!(
                "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: s{number}}}\nspec:\n  resourceRef: {{kind: Pod}}\n  \
                 selector: {{matchExpressions: [{{{expression}}}]}}\n  next: {{delete: true}}"
            )
        };
        set(&(0..40).map(one).collect::<Vec<_>>().join("\n---\n")).unwrap()
    };
    let object = json!({"kind": "Pod", "l": (0..300).collect::<Vec<_>>()});
    for expression in [heavy, cel] {
        let set = of(expression);
        let error = set.lifecycle(&kind("Pod")).unwrap().choose(&object, 0).unwrap_err();
        assert!(error.to_string().contains("1000000 steps of jq"), "{error}");
    }
    let modest = of("key: .l, operator: DoesNotExist");
    assert_eq!(modest.lifecycle(&kind("Pod")).unwrap().choose(&object, 0), Ok(None));
}

proptest! {
    /// Any text is an expression or an error, and any expression ends.
    #[test]
    fn expressions_of_any_text_do_not_panic(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            ".", ".a", "[]", "[0]", "[\"a\"]", "|", ",", "//", "and", " or ", "==", "<", "(", ")", "select(", "map(", "\"x\"", "1", "?", " ",
            "not", "length", "é", "keys", "first", "-",
        ]), 0..24)
    ) {
        let text: String = parts.concat();
        if let Ok(query) = Query::parse(&text) {
            let (input, mut left) = (json!({"a": [1, {"a": "b"}, null]}), 10_000);
            let outputs = query.run(&input, &mut left).unwrap_or_default();
            prop_assert!(outputs.len() <= 10_000 - left, "outputs are counted: {} of {left}", outputs.len());
        }
    }
}
