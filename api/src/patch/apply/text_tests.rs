//! Ownership of scalars that have several texts for one value.

use super::{ApplyError, ObjectType, Write, apply};
use crate::resource::Reset;
use crate::schema::decode::{Mode, normalize};
use crate::{defaults, kind, schema};
use serde_json::{Value, json};

/// Applies limits for one container as the server does: the configuration is decoded, and the result, too.
fn applied(live: Option<&Value>, manager: &str, cpu: &Value) -> Result<Value, ApplyError> {
    let ty = schema::of("apps", "v1", "Deployment").unwrap();
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}});
    let mut config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [container]}}}});
    normalize(&mut config, ty, Mode::Partial).unwrap();
    let write = Write {
        manager,
        subresource: "",
        api_version: "apps/v1",
        now: "2024-05-01T10:00:00Z",
        reset: Reset::Fields(&["status"]),
    };
    let mut object = apply(live, &config, &write, false, ObjectType::BuiltIn(ty))?;
    normalize(&mut object, ty, Mode::Whole).unwrap();
    defaults::apply(kind::lookup("apps", "v1", "deployments").unwrap(), &mut object);
    Ok(object)
}

/// Kubernetes compares the texts of a configuration with those of the stored object, not what they mean.
#[test]
fn equal_quantities_with_other_texts_are_a_conflict() {
    let live = applied(None, "one", &json!("1")).unwrap();
    assert!(applied(Some(&live), "two", &json!("1")).is_ok());
    for other in [json!("1000m"), json!(1)] {
        let Err(ApplyError::Conflicts(conflicts)) = applied(Some(&live), "two", &other) else {
            panic!("{other} is not the text \"1\"")
        };
        let path = ".spec.template.spec.containers[name=\"c\"].resources.limits.cpu";
        assert_eq!(conflicts.iter().map(|conflict| conflict.path.as_str()).collect::<Vec<_>>(), [path]);
    }
    let again = applied(Some(&live), "one", &json!("1000m")).unwrap();
    assert_eq!(again["spec"], live["spec"], "its own field is no conflict, and the stored text is canonical");
}

#[test]
fn configurations_keep_the_texts_of_scalars_and_are_checked() {
    let ty = schema::of("coordination.k8s.io", "v1", "Lease").unwrap();
    let lease = |time: &str| json!({"spec": {"renewTime": time}});
    let mut sent = lease("2024-05-01T12:00:00.123456+02:00");
    normalize(&mut sent, ty, Mode::Partial).unwrap();
    assert_eq!(sent, lease("2024-05-01T12:00:00.123456+02:00"));
    assert!(normalize(&mut lease("2024-05-01T12:00:00Z"), ty, Mode::Partial).is_err());
}
