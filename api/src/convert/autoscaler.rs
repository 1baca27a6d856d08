//! Conversion of horizontal pod autoscalers. Version v1 has only a target for CPU utilization; annotations
//! carry the other metrics of v2, in a flat form that v1 clients understand.

use super::{put, take};
use crate::{meta, object, schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// For each type of metric: its member, and pairs of flat name and nested path. `*` stands for `target` or
/// `current`.
const SHAPES: [(&str, &[(&str, &str)]); 5] = [
    (
        "resource",
        &[
            ("name", "name"),
            ("*AverageUtilization", "*.averageUtilization"),
            ("*AverageValue", "*.averageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name"),
            ("container", "container"),
            ("*AverageUtilization", "*.averageUtilization"),
            ("*AverageValue", "*.averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("*AverageValue", "*.averageValue"),
        ],
    ),
    (
        "object",
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("*Value", "*.value"),
            ("averageValue", "*.averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("*Value", "*.value"),
            ("*AverageValue", "*.averageValue"),
        ],
    ),
];

/// Whether a metric is a target or a current value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Target,
    Current,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Side::Target => "target",
            Side::Current => "current",
        }
    }
}

fn set_path(object: &mut Value, path: &str, value: Value) {
    let slot = path.split('.').fold(object, |object, member| {
        if !object.is_object() {
            *object = Value::Object(Map::new());
        }
        &mut object[member]
    });
    *slot = value;
}

fn reshape(metric: &Value, side: Side, to_nested: bool) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (member, pairs) in SHAPES {
        if metric[member].is_null() {
            continue;
        }
        let mut shaped = Value::Object(Map::new());
        for (flat, nested) in pairs {
            let (flat, nested) = (flat.replace('*', side.word()), nested.replace('*', side.word()));
            let (from, to) = if to_nested { (flat, nested) } else { (nested, flat) };
            let value = from.split('.').fold(&metric[member], |value, member| &value[member]);
            if !value.is_null() {
                set_path(&mut shaped, &to, value.clone());
            }
        }
        if to_nested && side == Side::Target {
            name_target(&mut shaped["target"]);
        }
        out[member] = shaped;
    }
    out
}

/// Sets the type of a nested target; in the flat form the present member implies it. An average takes
/// precedence over a plain value, which the flat form always has.
fn name_target(target: &mut Value) {
    if !target["averageUtilization"].is_null() {
        target["type"] = "Utilization".into();
    } else if !target["averageValue"].is_null() {
        target["type"] = "AverageValue".into();
        take(target, "value");
    } else {
        set_path(target, "type", "Value".into());
    }
}

fn is_cpu_utilization(metric: &Value, side: Side) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && !metric["resource"][side.word()]["averageUtilization"].is_null()
}

/// Removes an annotation and returns its JSON; text that is not JSON is dropped.
fn take_annotation(object: &mut Value, key: &str) -> Value {
    let annotations = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return Value::Null };
    let text = annotations.remove(key);
    if annotations.is_empty() {
        take(&mut object["metadata"], "annotations");
    }
    text.and_then(|text| serde_json::from_str(text.as_str()?).ok()).unwrap_or_default()
}

/// Drops the annotations that carry members of v2 in v1. Objects of v2 have the members, so these annotations are none of theirs
/// (`DropRoundTripHorizontalPodAutoscalerAnnotations` of Kubernetes).
pub(crate) fn drop_annotations(object: &mut Value) {
    for key in [METRICS, CURRENT, CONDITIONS, BEHAVIOR] {
        take_annotation(object, key);
    }
}

/// A value from an annotation, if it decodes into a type of v2; null otherwise. Kubernetes ignores annotations that do not decode.
fn decoded(mut value: Value, kind: &str) -> Value {
    let ty = schema::lookup(&format!("io.k8s.api.autoscaling.v2.{kind}")).expect("the table has the type");
    let mut read =
        |value: &mut Value| schema::decode::normalize(value, ty, schema::decode::Mode::Whole).is_ok();
    let is_of_type = match &mut value {
        Value::Array(items) => items.iter_mut().all(&mut read),
        value => read(value),
    };
    let is_empty = value.as_object().is_some_and(Map::is_empty);
    if is_of_type && !is_empty { value } else { Value::Null }
}

/// The value with the case of all members' first letters changed: the annotation spells members like Go
/// fields.
fn recased(value: Value, case: fn(&str) -> String) -> Value {
    match value {
        Value::Object(members) => {
            let renamed = |(name, value): (String, Value)| {
                let rest = name.char_indices().nth(1).map_or(name.len(), |(at, _)| at);
                (format!("{}{}", case(&name[..rest]), &name[rest..]), recased(value, case))
            };
            Value::Object(members.into_iter().map(renamed).collect())
        }
        Value::Array(items) => items.into_iter().map(|item| recased(item, case)).collect(),
        value => value,
    }
}

/// The behavior as the annotation has it: the members of Kubernetes' internal type in its order, unset ones as null.
fn behavior_text(behavior: &Value) -> String {
    let policy = |policy: &Value| {
        let [kind, value, seconds] = ["type", "value", "periodSeconds"].map(|member| &policy[member]);
        format!(r#"{{"Type":{kind},"Value":{value},"PeriodSeconds":{seconds}}}"#)
    };
    let rules = |rules: &Value| {
        if rules.is_null() {
            return "null".to_owned();
        }
        let [window, select, policies, tolerance] =
            ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"]
                .map(|member| &rules[member]);
        let policies = match policies.as_array() {
            Some(items) => format!("[{}]", items.iter().map(policy).collect::<Vec<_>>().join(",")),
            None => "null".to_owned(),
        };
        format!(
            r#"{{"StabilizationWindowSeconds":{window},"SelectPolicy":{select},"Policies":{policies},"Tolerance":{tolerance}}}"#
        )
    };
    let [up, down] = ["scaleUp", "scaleDown"].map(|member| rules(&behavior[member]));
    format!(r#"{{"ScaleUp":{up},"ScaleDown":{down}}}"#)
}

fn put_annotation(object: &mut Value, key: &str, value: &Value) {
    if !value.is_null() {
        meta::set_annotation(object, key, &value.to_string());
    }
}

/// Sets the members of a behavior of v2 that are not stated.
pub(crate) fn default_behavior(behavior: &mut Value) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]});
    let down = json!({"selectPolicy": "Max", "policies": [percent]});
    for (member, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        let Value::Object(defaults) = defaults else { continue };
        for (name, value) in defaults {
            let stated = behavior[member].get(&name).is_some_and(|stated| !stated.is_null());
            if !stated {
                set_path(&mut behavior[member], &name, value);
            }
        }
    }
}

/// Default metrics of an autoscaler without any: 80 % of the requested CPU.
pub(crate) fn default_metrics() -> Value {
    json!([{"type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}])
}

/// An autoscaler of any version in version v2, in which autoscalers are stored.
pub(crate) fn in_v2(object: &Value) -> Cow<'_, Value> {
    if object::api_version(object) != "autoscaling/v1" {
        return Cow::Borrowed(object);
    }
    let mut newer = object.clone();
    to_v2(&mut newer);
    newer["apiVersion"] = "autoscaling/v2".into();
    Cow::Owned(newer)
}

pub(crate) fn to_v2(object: &mut Value) {
    let others = take_annotation(object, METRICS);
    let current = take_annotation(object, CURRENT);
    let conditions = take_annotation(object, CONDITIONS);
    let behavior = take_annotation(object, BEHAVIOR);
    if object["spec"].is_object() {
        let spec = &mut object["spec"];
        let cpu = take(spec, "targetCPUUtilizationPercentage");
        let target = json!({"type": "Utilization", "averageUtilization": cpu});
        let metrics = joined(&cpu, json!({"name": "cpu", "target": target}), &others, Side::Target);
        let metrics = if metrics.is_null() { default_metrics() } else { metrics };
        put(spec, "metrics", metrics);
        let behavior = recased(behavior, str::to_ascii_lowercase);
        let mut behavior = match behavior.is_object() {
            true => decoded(behavior, "HorizontalPodAutoscalerBehavior"),
            false => Value::Null,
        };
        if behavior.is_object() {
            // Kubernetes reads what it stored with the defaults of v2.
            default_behavior(&mut behavior);
        }
        put(spec, "behavior", behavior);
    }
    if object["status"].is_object() {
        let status = &mut object["status"];
        let cpu = take(status, "currentCPUUtilizationPercentage");
        let resource = json!({"name": "cpu", "current": {"averageUtilization": cpu}});
        // The annotation has all current metrics, CPU included.
        let cpu = if current.is_array() { Value::Null } else { cpu };
        let metrics = joined(&cpu, resource, &current, Side::Current);
        put(status, "currentMetrics", metrics);
        if conditions.is_array() {
            put(status, "conditions", decoded(conditions, "HorizontalPodAutoscalerCondition"));
        }
    }
}

/// Metrics of the annotation, then the CPU metric, if there is one.
fn joined(cpu: &Value, resource: Value, others: &Value, side: Side) -> Value {
    let mut all: Vec<Value> =
        others.as_array().into_iter().flatten().map(|metric| reshape(metric, side, true)).collect();
    let kind = if side == Side::Target { "MetricSpec" } else { "MetricStatus" };
    if decoded(Value::Array(all.clone()), kind).is_null() {
        all.clear();
    }
    if !cpu.is_null() {
        all.push(json!({"type": "Resource", "resource": resource}));
    }
    if all.is_empty() { Value::Null } else { all.into() }
}

pub(crate) fn to_v1(object: &mut Value) {
    if object["spec"].is_object() {
        let spec = &mut object["spec"];
        let (cpu, others) = split(take(spec, "metrics"), Side::Target);
        let behavior = take(spec, "behavior");
        put(spec, "targetCPUUtilizationPercentage", cpu);
        put_annotation(object, METRICS, &others);
        if behavior.is_object() {
            meta::set_annotation(object, BEHAVIOR, &behavior_text(&behavior));
        }
    }
    if object["status"].is_object() {
        let status = &mut object["status"];
        let (cpu, others) = split(take(status, "currentMetrics"), Side::Current);
        let conditions = take(status, "conditions");
        put(status, "currentCPUUtilizationPercentage", cpu);
        put_annotation(object, CURRENT, &others);
        put_annotation(object, CONDITIONS, &conditions);
    }
}

/// Splits metrics into the first CPU utilization and the flat form of the others. For current metrics the
/// flat form includes CPU, since the v1 field lacks the raw value.
fn split(metrics: Value, side: Side) -> (Value, Value) {
    let Value::Array(mut metrics) = metrics else { return (Value::Null, Value::Null) };
    let cpu = match metrics.iter().position(|metric| is_cpu_utilization(metric, side)) {
        Some(at) if side == Side::Current => {
            metrics[at]["resource"][side.word()]["averageUtilization"].clone()
        }
        Some(at) => metrics.remove(at)["resource"][side.word()]["averageUtilization"].take(),
        None => Value::Null,
    };
    let others: Vec<Value> = metrics.iter().map(|metric| reshape(metric, side, false)).collect();
    (cpu, if others.is_empty() { Value::Null } else { others.into() })
}
