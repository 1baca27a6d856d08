//! Reads the configuration of scheduler_perf: test cases with their workloads, and the operations of a workload with its parameters. Pure:
//! files that the configuration names are read by a function that the caller gives.

use super::fields::Fields;
use super::operation::{Operation, Templates};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The gate of workloads whose nodes declare features.
const DECLARED_FEATURES_GATE: &str = "NodeDeclaredFeatures";
/// The parameter that says how many: scheduler_perf reads it when it has made the nodes, and no operation names it.
const DECLARED_FEATURES: &str = "numNodeDeclaredFeatures";

/// Labels of which each chosen workload or its test case has one; none: every workload is chosen.
pub(super) struct Selection<'s> {
    pub(super) labels: &'s [String],
    /// A part of the name `CASE/WORKLOAD`.
    pub(super) name: Option<&'s str>,
}

impl Selection<'_> {
    fn takes(&self, name: &str, labels: &BTreeSet<String>) -> bool {
        let has_label = self.labels.is_empty() || self.labels.iter().any(|label| labels.contains(label));
        has_label && self.name.is_none_or(|part| name.contains(part))
    }
}

/// A workload that can be run.
#[derive(Debug)]
pub(super) struct Workload {
    /// `CASE/WORKLOAD`.
    pub(super) name: String,
    /// The file of the scheduler's configuration.
    pub(super) scheduler_config: Option<PathBuf>,
    /// Feature gates by name, those of the case and of the workload.
    pub(super) gates: BTreeMap<String, bool>,
    /// Thresholds by the topic of the collected data; the topic is empty if the file has a single number.
    pub(super) thresholds: BTreeMap<String, f64>,
    pub(super) operations: Vec<Operation>,
}

/// Reads the chosen workloads of a configuration.
///
/// `text` is the content of `file`, `read` reads the templates that it names.
///
/// # Errors
/// Every problem of the chosen workloads.
pub(super) fn workloads(
    file: &Path,
    text: &str,
    selection: &Selection<'_>,
    read: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<Vec<Workload>, Vec<String>> {
    let shown = file.display().to_string();
    let cases: Vec<Value> =
        serde_yaml_ng::from_str(text).map_err(|error| vec![format!("{shown}: {error}")])?;
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let templates = Templates { folder, read, parsed: RefCell::default() };
    let (mut workloads, mut problems) = (Vec::new(), Vec::new());
    for (index, case) in cases.into_iter().enumerate() {
        match TestCase::read(case) {
            Ok(case) => case.expand(&shown, selection, &templates, &mut workloads, &mut problems),
            Err(problem) => problems.push(format!("{shown}: test case {index}: {problem}")),
        }
    }
    if problems.is_empty() { Ok(workloads) } else { Err(problems) }
}

/// A test case: the operations that its workloads share.
struct TestCase {
    name: String,
    labels: BTreeSet<String>,
    gates: BTreeMap<String, bool>,
    scheduler_config: Option<String>,
    pod_template: Option<String>,
    operations: Vec<Map<String, Value>>,
    workloads: Vec<Value>,
}

impl TestCase {
    fn read(case: Value) -> Result<Self, String> {
        let mut fields = Fields::of(case)?;
        let case = Self {
            name: fields.required("name")?,
            labels: fields.or_default("labels")?,
            gates: fields.or_default("featureGates")?,
            scheduler_config: fields.optional("schedulerConfigPath")?,
            pod_template: fields.optional("defaultPodTemplatePath")?,
            operations: fields.required("workloadTemplate")?,
            workloads: fields.required("workloads")?,
        };
        // What is measured here is the throughput; these select among other metrics.
        fields.ignore("metricsCollectorConfig");
        fields.ignore("defaultThresholdMetricSelector");
        fields.end()?;
        Ok(case)
    }

    fn expand(
        self,
        file: &str,
        selection: &Selection<'_>,
        templates: &Templates<'_>,
        workloads: &mut Vec<Workload>,
        problems: &mut Vec<String>,
    ) {
        for (index, value) in self.workloads.iter().enumerate() {
            let name = value["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
            let name = format!("{}/{name}", self.name);
            match self.workload(&name, value, selection, templates) {
                Ok(workload) => workloads.extend(workload),
                Err(problem) => problems.push(format!("{file}: {name}: {problem}")),
            }
        }
    }

    /// The workload, if it is chosen.
    fn workload(
        &self,
        name: &str,
        value: &Value,
        selection: &Selection<'_>,
        templates: &Templates<'_>,
    ) -> Result<Option<Workload>, String> {
        let mut fields = Fields::of(value.clone())?;
        let _: String = fields.required("name")?;
        let mut labels: BTreeSet<String> = fields.or_default("labels")?;
        labels.extend(self.labels.iter().cloned());
        let parameters: BTreeMap<String, Value> = fields.or_default("params")?;
        let mut gates = self.gates.clone();
        gates.extend(fields.or_default::<BTreeMap<String, bool>>("featureGates")?);
        let thresholds = thresholds(fields.optional("threshold")?)?;
        fields.ignore("thresholdMetricSelector");
        fields.end()?;
        if !selection.takes(name, &labels) {
            return Ok(None);
        }
        let mut used = BTreeSet::new();
        let mut operations = Vec::with_capacity(self.operations.len());
        for (index, operation) in self.operations.iter().enumerate() {
            let opcode = operation.get("opcode").and_then(Value::as_str).unwrap_or("no opcode");
            let read = resolve(operation, &parameters, &mut used).and_then(|resolved| {
                Operation::read(index, resolved, self.pod_template.as_deref(), templates)
            });
            operations.push(read.map_err(|problem| format!("op {index} ({opcode}): {problem}"))?);
        }
        if gates.get(DECLARED_FEATURES_GATE) == Some(&true)
            && let Some(count) = parameters.get(DECLARED_FEATURES)
        {
            used.insert(DECLARED_FEATURES.to_owned());
            let count = serde_json::from_value(count.clone())
                .map_err(|error| format!("parameter {DECLARED_FEATURES}: {error}"))?;
            for operation in &mut operations {
                if let Operation::CreateNodes(nodes) = operation {
                    nodes.declared_features = count;
                }
            }
        }
        if let Some(unused) = parameters.keys().find(|name| !used.contains(*name)) {
            return Err(format!("parameter {unused} is not used by an operation"));
        }
        let scheduler_config = self.scheduler_config.as_ref().map(|path| templates.folder.join(path));
        Ok(Some(Workload { name: name.to_owned(), scheduler_config, gates, thresholds, operations }))
    }
}

/// The operation with the values of its parameters: a member `countParam: $name` becomes `count`, and a member of `templateParams` whose
/// value is `$name` has the parameter's value.
fn resolve(
    operation: &Map<String, Value>,
    parameters: &BTreeMap<String, Value>,
    used: &mut BTreeSet<String>,
) -> Result<Map<String, Value>, String> {
    let mut resolved = Map::new();
    for (member, value) in operation {
        let parameter =
            member.strip_suffix("Param").zip(value.as_str().and_then(|text| text.strip_prefix('$')));
        let Some((target, name)) = parameter else {
            let value = match value {
                Value::Object(inner) if member == "templateParams" => {
                    Value::Object(template_parameters(inner, parameters, used)?)
                }
                Value::Object(inner) => Value::Object(resolve(inner, parameters, used)?),
                other => other.clone(),
            };
            resolved.insert(member.clone(), value);
            continue;
        };
        let found = parameter_of(name, parameters, used)?;
        if operation.contains_key(target) && target != "count" {
            return Err(format!("{member:?} and {target:?} exclude each other"));
        }
        resolved.insert(target.to_owned(), found.clone());
    }
    Ok(resolved)
}

fn parameter_of<'p>(
    name: &str,
    parameters: &'p BTreeMap<String, Value>,
    used: &mut BTreeSet<String>,
) -> Result<&'p Value, String> {
    let found = parameters.get(name).ok_or_else(|| format!("parameter ${name} is not defined"))?;
    used.insert(name.to_owned());
    Ok(found)
}

/// The fields of a template besides its index, with the values of the parameters that they name.
fn template_parameters(
    fields: &Map<String, Value>,
    parameters: &BTreeMap<String, Value>,
    used: &mut BTreeSet<String>,
) -> Result<Map<String, Value>, String> {
    let resolved = fields.iter().map(|(field, value)| {
        let value = match value.as_str().and_then(|text| text.strip_prefix('$')) {
            Some(name) => parameter_of(name, parameters, used)?,
            None => value,
        };
        Ok((field.clone(), value.clone()))
    });
    resolved.collect()
}

/// Thresholds: a number, or a number for each topic.
fn thresholds(value: Option<Value>) -> Result<BTreeMap<String, f64>, String> {
    match value {
        None => Ok(BTreeMap::new()),
        Some(value @ Value::Object(_)) => {
            serde_json::from_value(value).map_err(|error| format!("\"threshold\": {error}"))
        }
        Some(value) => match value.as_f64() {
            Some(number) => Ok(BTreeMap::from([(String::new(), number)])),
            None => Err(format!("\"threshold\" is a number or an object, not {value}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = "
- name: Basic
  labels: [short]
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - {name: small, params: {nodes: 3, pods: 5}}
  - {name: large, labels: [performance], threshold: 270, params: {nodes: 5000, pods: 10000}}
";

    fn read(text: &str, labels: &[&str], name: Option<&str>) -> Result<Vec<Workload>, Vec<String>> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let pod = |path: &Path| match path.ends_with("pod.yaml") {
            true => Ok("kind: Pod\nmetadata: {generateName: pod-}".to_owned()),
            false => Err("No such file".to_owned()),
        };
        workloads(Path::new("d/F"), text, &Selection { labels: &labels, name }, &pod)
    }

    fn names(workloads: &[Workload]) -> Vec<&str> {
        workloads.iter().map(|workload| workload.name.as_str()).collect()
    }

    #[test]
    fn labels_and_names_choose_workloads() {
        for (labels, name, expected) in [
            (&[][..], None, &["Basic/small", "Basic/large"][..]),
            (&["performance"], None, &["Basic/large"]),
            (&["short"], Some("small"), &["Basic/small"]),
            (&["nothing"], None, &[]),
        ] {
            assert_eq!(names(&read(CASE, labels, name).unwrap()), expected);
        }
        let large = &read(CASE, &["performance"], None).unwrap()[0];
        assert_eq!(large.thresholds, BTreeMap::from([(String::new(), 270.0)]));
        assert_eq!(large.operations.len(), 2);
    }

    #[test]
    fn each_problem_names_file_workload_and_operation() {
        for (from, to, problem) in [
            (
                "collectMetrics: true",
                "podTemplate: x",
                "d/F: Basic/small: op 1 (createPods): unknown field \"podTemplate\"; did you mean \"podTemplatePath\"?",
            ),
            ("$pods", "$pod", "d/F: Basic/small: op 1 (createPods): parameter $pod is not defined"),
            ("countParam: $pods", "count: 1", "d/F: Basic/small: parameter pods is not used by an operation"),
            (
                "createNodes",
                "createNode",
                "d/F: Basic/small: op 0 (createNode): unknown opcode; did you mean \"createNodes\"?",
            ),
            (
                "pod.yaml",
                "gone.yaml",
                "d/F: Basic/small: op 1 (createPods): cannot read d/gone.yaml: No such file",
            ),
            (
                "threshold: 270",
                "threshold: x",
                "d/F: Basic/large: \"threshold\" is a number or an object, not \"x\"",
            ),
        ] {
            let problems = read(&CASE.replacen(from, to, 1), &[], None).unwrap_err();
            assert_eq!(problems[0], problem);
        }
        let problems = read(&CASE.replacen("  labels", "  label", 1), &[], None).unwrap_err();
        assert_eq!(problems, ["d/F: test case 0: unknown field \"label\"; did you mean \"labels\"?"]);
    }

    #[test]
    fn nodes_declare_as_many_features_as_the_parameter_of_scheduler_perf_says() {
        let case = CASE.replacen("nodes: 3,", "nodes: 3, numNodeDeclaredFeatures: 20,", 1);
        let unused = read(&case, &[], Some("small")).unwrap_err();
        assert_eq!(
            unused,
            ["d/F: Basic/small: parameter numNodeDeclaredFeatures is not used by an operation"]
        );
        let gated = case.replacen("labels: [short]", "featureGates: {NodeDeclaredFeatures: true}", 1);
        let found = read(&gated, &[], Some("small")).unwrap();
        let Operation::CreateNodes(nodes) = &found[0].operations[0] else { panic!("nodes come first") };
        assert_eq!(nodes.declared_features, 20);
        let wrong = read(&gated.replace("Features: 20", "Features: x"), &[], Some("small")).unwrap_err();
        assert!(wrong[0].starts_with("d/F: Basic/small: parameter numNodeDeclaredFeatures: "), "{wrong:?}");
    }

    #[test]
    fn templates_have_the_parameters_that_an_operation_gives_them() {
        let case = "
- name: Gangs
  workloadTemplate:
  - {opcode: createPods, countParam: $groups, countMultiplierParam: $size, podTemplatePath: pod.yaml, templateParams: {size: $size, own: 7}}
  workloads: [{name: one, params: {groups: 3, size: 4}}]
";
        let pod = |_: &Path| {
            Ok("{metadata: {name: 'g-{{DivideInt .Index .size}}-{{.own}}-{{.Count}}'}}".to_owned())
        };
        let selection = Selection { labels: &[], name: None };
        let read = |text: &str| workloads(Path::new("F"), text, &selection, &pod);
        let found = read(case).unwrap();
        let [Operation::CreatePods(pods)] = &found[0].operations[..] else { panic!("one operation") };
        assert_eq!(pods.count, 12);
        let template = pods.template.as_ref().unwrap();
        let rendered = template.render(&serde_json::json!({"Index": 9, "Count": 12})).unwrap();
        assert_eq!(rendered, "{metadata: {name: 'g-2-7-12'}}");
        let wrong = read(&case.replace("size: $size,", "size: $length,")).unwrap_err();
        assert_eq!(wrong, ["F: Gangs/one: op 0 (createPods): parameter $length is not defined"]);
    }
}
