//! Tests of admission expressions, with recorded messages of a Kubernetes server.

use super::{Budget, Environment, Evaluation, EvaluationError, Inputs, ResultType, Uses};
use crate::expression::authorizer::{
    AccessCheck, AccessTarget, Authorizer, Decision, RequestAuthorizer, Subject,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ALL: Uses =
    Uses { params: true, authorizer: true, namespace: true, variables: true, patch_types: false };

fn refusal(uses: Uses, expression: &str, result: ResultType) -> String {
    Environment::new(uses)
        .compile(expression, result)
        .err()
        .map_or_else(String::new, |failure| failure.to_string())
}

#[test]
fn compile_errors_match_recorded_messages() {
    let (none, patches) = (Uses::default(), Uses { patch_types: true, ..ALL });
    let cases = [
        (none, "object.data", ResultType::Bool, "must evaluate to bool but got dyn"),
        (none, "1", ResultType::String, "must evaluate to string but got int"),
        (none, "1", ResultType::StringOrNull, "must evaluate to one of [string null_type] but got int"),
        (patches, "'x'", ResultType::Object, "must evaluate to Object but got string"),
        (patches, "{'a': 1}", ResultType::Object, "must evaluate to Object but got map(string, int)"),
        (patches, "'x'", ResultType::Patches, "must evaluate to list(JSONPatch) but got string"),
        (
            patches,
            "[JSONPatch{oops: \"add\"}]",
            ResultType::Patches,
            "compilation failed: ERROR: <input>:1:16: expected type of field 'oops' is '' but provided type is 'string'\n | [JSONPatch{oops: \"add\"}]\n | ...............^",
        ),
        (
            none,
            "params.x == 1",
            ResultType::Bool,
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^",
        ),
        (
            ALL,
            "request.zz == 1",
            ResultType::Bool,
            "compilation failed: ERROR: <input>:1:8: undefined field 'zz'\n | request.zz == 1\n | .......^",
        ),
        (
            ALL,
            "authorizer.zz()",
            ResultType::Bool,
            "compilation failed: ERROR: <input>:1:14: undeclared reference to 'zz' (in container '')\n | authorizer.zz()\n | .............^",
        ),
        (none, "null", ResultType::StringOrNull, ""),
        (patches, "Object{spec: Object.spec{replicas: 1}}", ResultType::Object, ""),
        (ALL, "namespaceObject.metadata.name == 'a'", ResultType::Bool, ""),
        (
            ALL,
            "variables.a == 1",
            ResultType::Bool,
            "compilation failed: ERROR: <input>:1:10: undefined field 'a'\n | variables.a == 1\n | .........^",
        ),
    ];
    for (uses, expression, result, expected) in cases {
        assert_eq!(refusal(uses, expression, result), expected, "{expression}");
    }
}

#[test]
fn variables_have_the_type_of_their_expression_and_use_earlier_ones_only() {
    let mut environment = Environment::new(ALL);
    environment.declare("a", "'x'").unwrap();
    environment.declare("b", "variables.a + 'y'").unwrap();
    let failure = environment.declare("c", "variables.d").unwrap_err().to_string();
    assert!(failure.contains("undefined field 'd'"), "{failure}");
    let failure = environment.compile("variables.a > 1", ResultType::Bool).unwrap_err().to_string();
    let expected = "compilation failed: ERROR: <input>:1:13: found no matching overload for '_>_' applied to '(string, int)'\n | variables.a > 1\n | ............^";
    assert_eq!(failure, expected);
    let program = environment.compile("variables.b", ResultType::String).unwrap();
    let evaluation = Evaluation::new(&environment, Inputs::default());
    assert_eq!(evaluation.text(&program, &mut Budget::for_object()), Ok(Some("xy".to_owned())));
    let broken = environment.compile("variables.c == 1", ResultType::Bool).unwrap();
    let error = evaluation.is_true(&broken, &mut Budget::for_object()).unwrap_err().to_string();
    assert!(error.starts_with("expression 'variables.c == 1' resulted in error: composited variable \"c\" fails to compile: compilation failed: "), "{error}");
}

#[test]
fn variables_are_evaluated_once_and_only_if_used() {
    let mut environment = Environment::new(ALL);
    environment.declare("long", "[1, 2, 3].all(x, x > 0)").unwrap();
    let read = environment.compile("variables.long", ResultType::Bool).unwrap();
    let other = environment.compile("true || variables.long", ResultType::Bool).unwrap();
    let evaluation = Evaluation::new(&environment, Inputs::default());
    let cost = |program| {
        let mut budget = Budget::for_object();
        assert_eq!(evaluation.is_true(program, &mut budget), Ok(true));
        Budget::for_object().left() - budget.left()
    };
    assert_eq!(cost(&other), 0);
    let (first, second) = (cost(&read), cost(&read));
    assert!(first > second && second > 0, "{first} {second}");
}

#[test]
fn evaluation_errors_and_exhausted_budgets_have_the_messages_of_kubernetes() {
    let environment = Environment::new(ALL);
    let object = json!({"metadata": {"name": "a"}});
    let evaluation = Evaluation::new(&environment, Inputs { object: &object, ..Inputs::default() });
    let error = |expression: &str, mut budget: Budget| {
        let program = environment.compile(expression, ResultType::Bool).unwrap();
        Evaluation::new(&environment, Inputs { object: &object, ..Inputs::default() })
            .is_true(&program, &mut budget)
            .unwrap_err()
            .to_string()
    };
    let missing = error("object.data.need == 'x'", Budget::for_object());
    assert_eq!(missing, "expression 'object.data.need == 'x'' resulted in error: no such key: data");
    assert!(!environment.is_costly());
    let loops = "[1,2,3,4,5,6,7,8,9,10]";
    let endless = format!(
        "{loops}.all(a, {loops}.all(b, {loops}.all(c, {loops}.all(d, {loops}.all(e, {loops}.all(f, a + b + c + d + e + f > 0))))))"
    );
    let expensive = error(&endless, Budget::for_object());
    assert!(expensive.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"));
    assert!(environment.is_costly());
    let mut budget = Budget::for_match_conditions();
    let program = environment.compile(&endless, ResultType::Bool).unwrap();
    let mut outcomes = (0..3).map(|_| evaluation.is_true(&program, &mut budget));
    assert!(matches!(outcomes.next(), Some(Err(EvaluationError::Failed { .. }))));
    assert_eq!(outcomes.last(), Some(Err(EvaluationError::OutOfBudget)));
}

/// Authorizer that allows `get` and counts its calls.
#[derive(Default)]
struct CountingAuthorizer(AtomicUsize);

impl Authorizer for CountingAuthorizer {
    fn decide(&self, check: &AccessCheck) -> Decision {
        self.0.fetch_add(1, Ordering::Relaxed);
        let subject = match &check.subject {
            Subject::Requester => "requester".to_owned(),
            Subject::ServiceAccount { namespace, name } => format!("{namespace}/{name}"),
        };
        let target = match &check.target {
            AccessTarget::Path(path) => path.clone(),
            AccessTarget::Resource(at) => [
                &*at.group,
                &at.resource,
                &at.subresource,
                &at.namespace,
                &at.name,
                &at.field_selector,
                &at.label_selector,
            ]
            .join("|"),
        };
        let error = (check.verb == "fail").then(|| "broken".to_owned());
        Decision { allowed: check.verb == "get", reason: format!("{subject} {target}"), error }
    }
}

#[test]
fn authorizer_decisions_are_cached_per_check() {
    let gate = Arc::new(CountingAuthorizer::default());
    let request = json!({"requestResource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "requestSubResource": "scale", "namespace": "ns", "name": "web", "userInfo": {"username": "u"}});
    let environment = Environment::new(ALL);
    let authorizer = RequestAuthorizer::new(gate.clone());
    let inputs = Inputs { request: &request, authorizer: Some(authorizer), ..Inputs::default() };
    let cases = [
        ("authorizer.path('/healthz').check('get').reason()", "requester /healthz"),
        ("authorizer.requestResource.check('get').reason()", "requester apps|deployments|scale|ns|web||"),
        (
            "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').subresource('log').namespace('n').name('p').fieldSelector('a=b').labelSelector('c').check('list').reason()",
            "ns/sa |pods|log|n|p|a=b|c",
        ),
        ("string(authorizer.group('').resource('pods').check('get').allowed())", "true"),
        ("authorizer.group('').resource('pods').check('fail').error()", "broken"),
        ("string(authorizer.group('').resource('pods').check('fail').errored())", "true"),
        ("request.userInfo.username", "u"),
    ];
    for (expression, expected) in cases {
        let program = environment.compile(expression, ResultType::String).unwrap();
        let evaluation = Evaluation::new(&environment, inputs.clone());
        assert_eq!(
            evaluation.text(&program, &mut Budget::for_object()),
            Ok(Some(expected.to_owned())),
            "{expression}"
        );
    }
    assert_eq!(gate.0.load(Ordering::Relaxed), 5);
    for (expression, expected) in [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('ns', '@').path('/').check('get').allowed()",
            "Invalid service account name",
        ),
    ] {
        let program = environment.compile(expression, ResultType::Bool).unwrap();
        let evaluation = Evaluation::new(&environment, inputs.clone());
        let error = evaluation.is_true(&program, &mut Budget::for_object()).unwrap_err().to_string();
        assert_eq!(error, format!("expression '{expression}' resulted in error: {expected}"));
    }
}

#[test]
fn mutation_expressions_evaluate_to_json() {
    let environment = Environment::new(Uses { patch_types: true, ..ALL });
    let object = json!({"metadata": {"labels": {"a": "b"}}});
    let cases: [(&str, ResultType, Value); 2] = [
        (
            "Object{metadata: Object.metadata{labels: {'x': object.metadata.labels.a}}, spec: Object.spec{replicas: 2}}",
            ResultType::Object,
            json!({"metadata": {"labels": {"x": "b"}}, "spec": {"replicas": 2}}),
        ),
        (
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: Object.metadata.labels{c: 'd'}}]",
            ResultType::Patches,
            json!([{"op": "add", "path": "/metadata/labels/a~1b", "value": {"c": "d"}}]),
        ),
    ];
    for (expression, result, expected) in cases {
        let program = environment.compile(expression, result).unwrap();
        let evaluation = Evaluation::new(&environment, Inputs { object: &object, ..Inputs::default() });
        assert_eq!(evaluation.json(&program, &mut Budget::for_object()), Ok(expected));
    }
}
