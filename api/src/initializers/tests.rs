//! Rules of initializers and the schema of their configurations.

use super::*;
use crate::crd::Definition;

fn object(initializers: Value) -> Value {
    json!({ "metadata": { "name": "o", "initializers": initializers } })
}

#[test]
fn initializers_are_decoded_and_written() {
    let read = |member: Value| Initializers::of(&object(member));
    let pending =
        |names: &[&str]| Initializers::waiting_for(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(read(Value::Null), Ok(None));
    assert_eq!(read(json!({})), Ok(Some(Initializers::default())));
    let two = json!({ "pending": [{ "name": "a.b.c" }, { "name": "d.e.f" }] });
    assert_eq!(read(two.clone()), Ok(Some(pending(&["a.b.c", "d.e.f"]))));
    let failed = json!({ "result": { "status": "Failure", "message": "no", "code": 422 } });
    let result = read(failed).unwrap().unwrap().result.unwrap();
    assert_eq!((result.code, result.message.as_str(), result.status), (422, "no", Outcome::Failure));
    for wrong in [json!(1), json!({ "pending": {} }), json!({ "pending": [1] }), json!({ "result": [] })] {
        assert!(read(wrong.clone()).is_err(), "{wrong}");
    }
    let directive = json!({ "pending": [{ "name": "a.b.c", "$patch": "delete" }] });
    assert!(read(directive).is_err(), "strategic patches replace the list");
    let mut written = object(Value::Null);
    pending(&["a.b.c", "d.e.f"]).write(&mut written);
    assert_eq!(written, object(two));
    assert!(is_uninitialized(&written));
    pending(&[]).write(&mut written);
    assert!(!is_uninitialized(&written) && written["metadata"].get(MEMBER).is_none());
}

#[test]
fn initializers_are_only_removed_and_a_failure_is_final() {
    let failed =
        |message: &str| Initializers { pending: Vec::new(), result: Some(Status::internal(message)) };
    let waiting = Initializers::waiting_for(vec!["a.b.c".to_owned()]);
    let check = |new: Option<&Initializers>, old| Initializers::validate_update(new, old).aggregate();
    assert_eq!(check(None, Some(&waiting)), "[]");
    assert_eq!(check(Some(&failed("no")), Some(&waiting)), "[]");
    assert_eq!(
        check(Some(&waiting), None),
        "metadata.initializers: Invalid value: \"null\": field is immutable once initialization has completed"
    );
    assert!(check(Some(&failed("other")), Some(&failed("no"))).contains("field is immutable"));
    let short = Initializers::waiting_for(vec!["a.b".to_owned()]);
    assert_eq!(
        short.validate().aggregate(),
        "metadata.initializers.pending[0].name: Invalid value: \"a.b\": should be a domain with at least three \
         segments separated by dots"
    );
    let succeeded = Initializers { pending: Vec::new(), result: Some(Status::success(200)) };
    assert!(succeeded.validate().aggregate().contains("must be 'Failure'"));
}

#[test]
fn matching_initializers_are_named_in_the_order_of_their_configurations() {
    let rule = |group: &str, plural: &str| json!({ "apiGroups": [group], "apiVersions": ["*"], "resources": [plural] });
    let initializer = |name: &str, rules: Value| json!({ "name": name, "rules": rules });
    let first = json!({ "metadata": { "name": "1" }, "initializers": [
        initializer("pods.a.b", json!([rule("", "pods")])),
        initializer("two.a.b", json!([rule("apps", "deployments"), rule("", "pods")])),
        initializer("none.a.b", json!([])),
    ] });
    let second = json!({ "metadata": { "name": "2" }, "initializers": [initializer("all.a.b", json!([rule("*", "*")]))] });
    let hidden = json!({ "metadata": { "name": "3", "initializers": { "pending": [{ "name": "x.y.z" }] } },
        "initializers": [initializer("hidden.a.b", json!([rule("*", "*")]))] });
    let all = [first, second, hidden];
    assert_eq!(names_for(&all, ("", "v1", "pods")), ["pods.a.b", "two.a.b", "all.a.b"]);
    assert_eq!(names_for(&all, ("", "v1", "services")), ["all.a.b"]);
    assert_eq!(names_for(&all, ("apps", "v1", "deployments")), ["two.a.b", "all.a.b"]);
}

#[test]
fn configurations_are_validated_by_the_schema_of_their_kind() {
    let definition = Definition::compile_after(&definition(), None).unwrap();
    let tree = &definition.versions[0].tree;
    let check = |rule: Value, name: &str| {
        let object =
            json!({ "metadata": { "name": "c" }, "initializers": [{ "name": name, "rules": [rule] }] });
        let mut errors = tree.validate(&object, None, crate::structural::ValidationScope::Whole);
        errors.extend(tree.validate_rules(&object, None).errors);
        errors.aggregate()
    };
    let rule = |groups: Value, versions: Value, resources: Value| json!({ "apiGroups": groups, "apiVersions": versions, "resources": resources });
    let good = rule(json!([""]), json!(["*"]), json!(["pods", "services"]));
    assert_eq!(check(good.clone(), "labels.example.com"), "[]");
    for (rule, name, text) in [
        (good, "example.com", "should be a domain with at least three segments separated by dots"),
        (
            rule(json!(["*", ""]), json!(["v1"]), json!(["pods"])),
            "a.b.c",
            "must not specify other API groups",
        ),
        (
            rule(json!([""]), json!(["v1", "*"]), json!(["pods"])),
            "a.b.c",
            "must not specify other API versions",
        ),
        (rule(json!([""]), json!(["v1"]), json!(["*", "pods"])), "a.b.c", "must not specify other resources"),
        (rule(json!([""]), json!(["v1"]), json!(["pods/status"])), "a.b.c", "must not specify subresources"),
        (rule(json!([""]), json!([]), json!(["pods"])), "a.b.c", "apiVersions"),
    ] {
        let errors = check(rule, name);
        assert!(errors.contains(text), "{text}: {errors}");
    }
}
