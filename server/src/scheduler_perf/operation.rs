//! [`Operation`]: one step of a workload, read from its document. Pure.

use super::devices;
use super::fields::{Fields, suggestion};
use super::tally::PodSelection;
use super::template::Template;
use kstore_go_duration::parse_non_negative;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval of churn if the operation names none, as in scheduler_perf.
const CHURN_MILLISECONDS: u64 = 500;

/// The opcodes that this program executes.
const OPCODES: [&str; 17] = [
    "createNodes",
    "createNamespaces",
    "createPods",
    "createPodSets",
    "deletePods",
    "churn",
    "barrier",
    "sleep",
    "startCollectingMetrics",
    "stopCollectingMetrics",
    "createAny",
    "updateAny",
    "createResourceClaims",
    "createResourceDriver",
    "allocResourceClaims",
    "createPodGroups",
    "waitForPodGroups",
];

/// The opcode of a kind that is alpha in Kubernetes, and that kstore does not have.
const COMPOSITE: &str = "createCompositePodGroups";

/// The templates that a configuration names, each read once.
pub(super) struct Templates<'t> {
    /// The folder of the configuration, to which paths are relative.
    pub(super) folder: &'t Path,
    pub(super) read: &'t dyn Fn(&Path) -> Result<String, String>,
    pub(super) parsed: RefCell<BTreeMap<PathBuf, Arc<Template>>>,
}

impl Templates<'_> {
    fn get(&self, path: &str) -> Result<Arc<Template>, String> {
        let path = self.folder.join(path);
        if let Some(known) = self.parsed.borrow().get(&path) {
            return Ok(Arc::clone(known));
        }
        let shown = path.display().to_string();
        let text = (self.read)(&path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let template = Arc::new(Template::parse(&shown, &text)?);
        self.parsed.borrow_mut().insert(path, Arc::clone(&template));
        Ok(template)
    }

    fn of(&self, path: Option<String>) -> Result<Option<Arc<Template>>, String> {
        path.map(|path| self.get(&path)).transpose()
    }
}

/// A step of a workload.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// Creates nodes.
    CreateNodes(CreateNodes),
    /// Creates namespaces `PREFIX-N`.
    CreateNamespaces { prefix: String, count: usize, template: Option<Arc<Template>> },
    /// Creates pods and waits until they are scheduled.
    CreatePods(CreatePods),
    /// Creates pods in each of the namespaces `PREFIX-N`.
    CreatePodSets { count: usize, namespace_prefix: String, pods: Box<CreatePods> },
    /// Deletes pods of a namespace; the next operation waits for that, or begins at once.
    DeletePods { pods: PodSelection, per_second: Option<u32>, waits: bool },
    /// Creates objects, and deletes them again in mode recreate, until the workload ends.
    Churn(Churn),
    /// Waits for pods.
    Barrier { pods: PodSelection, stage: Stage },
    /// Waits.
    Sleep(Duration),
    /// Measures pods, under a name that may be empty, until the next [`Operation::StopCollecting`].
    StartCollecting { name: String, pods: PodSelection },
    /// Ends the measurement.
    StopCollecting,
    /// Creates objects of any kind.
    CreateAny { template: Arc<Template>, namespace: String, count: usize },
    /// Replaces objects of any kind.
    UpdateAny(UpdateAny),
    /// Publishes the devices of a driver on the nodes whose names match a pattern, so many on each.
    CreateResourceDriver { driver: String, nodes: String, devices: usize },
    /// Allocates the claims of a namespace, or of all namespaces, without pods.
    AllocResourceClaims { namespace: String },
    /// Checks that a namespace has so many PodGroups.
    WaitForPodGroups { namespace: String, count: usize },
}

/// The arguments of createNodes.
#[derive(Clone, Debug)]
pub(super) struct CreateNodes {
    /// Position of the operation, which is in the names of its nodes.
    pub(super) operation: usize,
    pub(super) count: usize,
    pub(super) template: Option<Arc<Template>>,
    pub(super) label: Option<NodeLabel>,
    /// Allocatable resources beside those of the template.
    pub(super) allocatable: BTreeMap<String, String>,
    /// The CSINode of each node, if the operation makes them.
    pub(super) csi: Option<CsiNodes>,
    /// How many features each node declares.
    pub(super) declared_features: u16,
}

/// The CSINodes that createNodes makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsiNodes {
    /// How many volumes each driver attaches to a node.
    pub(super) counts: BTreeMap<String, u32>,
    /// In-tree plugins that are replaced by drivers.
    pub(super) migrated_plugins: Vec<String>,
}

/// The label that createNodes gives to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeLabel {
    /// One of these values in turn.
    InTurn(String, Vec<String>),
    /// Another value for each node.
    Unique(String),
}

/// The arguments of createPods.
#[derive(Clone, Debug)]
pub(super) struct CreatePods {
    pub(super) count: usize,
    pub(super) namespace: String,
    pub(super) template: Option<Arc<Template>>,
    pub(super) is_measured: bool,
    pub(super) waits: bool,
    /// Templates of a volume and of its claim for each pod.
    pub(super) volumes: Option<(Arc<Template>, Arc<Template>)>,
    /// How long each pod that gets a node is deleted and another one created.
    pub(super) steady: Option<Duration>,
}

/// What pods must have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// They have a node.
    Scheduled,
    /// The scheduler has tried them.
    Attempted,
}

/// The arguments of churn.
#[derive(Clone, Debug)]
pub(super) struct Churn {
    /// Whether objects are deleted and created again.
    pub(super) recreates: bool,
    /// Objects of each template; 0: without end.
    pub(super) number: usize,
    pub(super) interval: Duration,
    pub(super) namespace: String,
    pub(super) templates: Vec<Arc<Template>>,
}

/// The arguments of updateAny.
#[derive(Clone, Debug)]
pub(super) struct UpdateAny {
    pub(super) template: Arc<Template>,
    pub(super) namespace: String,
    pub(super) count: usize,
    pub(super) per_second: Option<u32>,
    pub(super) subresources: Vec<String>,
}

impl Operation {
    /// Reads the operation at `index` of a workload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(
        index: usize,
        members: Map<String, Value>,
        default_pod: Option<&str>,
        templates: &Templates<'_>,
    ) -> Result<Self, String> {
        let mut fields = Fields::of(Value::Object(members))?;
        let opcode: String = fields.required("opcode")?;
        let operation = match opcode.as_str() {
            "createNodes" => Self::CreateNodes(create_nodes(index, &mut fields, templates)?),
            "createNamespaces" => Self::CreateNamespaces {
                prefix: fields.required("prefix")?,
                count: fields.required("count")?,
                template: templates.of(fields.optional("namespaceTemplatePath")?)?,
            },
            "createPods" => Self::CreatePods(create_pods(index, &mut fields, default_pod, templates)?),
            "createPodSets" => create_pod_sets(index, &mut fields, default_pod, templates)?,
            "deletePods" => delete_pods(&mut fields)?,
            "churn" => Self::Churn(churn(index, &mut fields, templates)?),
            "barrier" => Self::Barrier { pods: selection(&mut fields)?, stage: stage(&mut fields)? },
            "sleep" => Self::Sleep(duration(&fields.required::<String>("duration")?)?),
            "startCollectingMetrics" => {
                Self::StartCollecting { name: fields.or_default("name")?, pods: selection(&mut fields)? }
            }
            "stopCollectingMetrics" => Self::StopCollecting,
            "createAny" => Self::CreateAny {
                template: template_of(&mut fields, templates)?,
                namespace: fields.or_default("namespace")?,
                count: fields.optional("count")?.unwrap_or(1),
            },
            "createResourceClaims" | "createPodGroups" => Self::CreateAny {
                template: template_of(&mut fields, templates)?,
                namespace: fields.required("namespace")?,
                count: fields.required("count")?,
            },
            "createResourceDriver" => {
                let (driver, nodes) = (fields.required("driverName")?, fields.required::<String>("nodes")?);
                devices::matches(&nodes, "")?;
                Self::CreateResourceDriver { driver, nodes, devices: fields.required("maxClaimsPerNode")? }
            }
            "allocResourceClaims" => Self::AllocResourceClaims { namespace: fields.or_default("namespace")? },
            "waitForPodGroups" => Self::WaitForPodGroups {
                namespace: fields.required("namespace")?,
                count: fields.required("count")?,
            },
            "updateAny" => Self::UpdateAny(UpdateAny {
                template: templates.get(&fields.required::<String>("templatePath")?)?,
                namespace: fields.or_default("namespace")?,
                count: fields.optional("count")?.unwrap_or(1),
                per_second: fields.optional("updatePerSecond")?,
                subresources: fields.or_default("subresources")?,
            }),
            COMPOSITE => {
                return Err(
                    "composite PodGroups are alpha in Kubernetes, and this program does not have them: \
                            choose other workloads with --name"
                        .to_owned(),
                );
            }
            other => return Err(format!("unknown opcode{}", suggestion(other, OPCODES.into_iter()))),
        };
        fields.end()?;
        Ok(operation)
    }
}

fn create_pod_sets(
    index: usize,
    fields: &mut Fields,
    default_pod: Option<&str>,
    templates: &Templates<'_>,
) -> Result<Operation, String> {
    let (count, namespace_prefix) = (fields.required("count")?, fields.required("namespacePrefix")?);
    let mut inner = Fields::of(fields.required("createPodsOp")?)?;
    inner.ignore("opcode");
    let pods = Box::new(create_pods(index, &mut inner, default_pod, templates)?);
    inner.end().map_err(|problem| format!("createPodsOp: {problem}"))?;
    Ok(Operation::CreatePodSets { count, namespace_prefix, pods })
}

fn delete_pods(fields: &mut Fields) -> Result<Operation, String> {
    let pods = PodSelection {
        namespaces: vec![fields.required("namespace")?],
        labels: fields.or_default("labelSelector")?,
    };
    let per_second = fields.optional("deletePodsPerSecond")?;
    let waits = !fields.or_default::<bool>("skipWaitToCompletion")?;
    Ok(Operation::DeletePods { pods, per_second, waits })
}

/// The template that an operation names, with the fields that it gives it.
fn template_of(fields: &mut Fields, templates: &Templates<'_>) -> Result<Arc<Template>, String> {
    let template = templates.get(&fields.required::<String>("templatePath")?)?;
    with_parameters(fields, Some(template)).map(|template| template.expect("a template stays"))
}

/// The template with the fields that the operation gives it.
fn with_parameters(
    fields: &mut Fields,
    template: Option<Arc<Template>>,
) -> Result<Option<Arc<Template>>, String> {
    let parameters: Map<String, Value> = fields.or_default("templateParams")?;
    Ok(template.map(|template| match parameters.is_empty() {
        true => template,
        false => Arc::new(template.with(parameters)),
    }))
}

fn create_nodes(index: usize, fields: &mut Fields, templates: &Templates<'_>) -> Result<CreateNodes, String> {
    let (count, template) = (fields.required("count")?, templates.of(fields.optional("nodeTemplatePath")?)?);
    let template = with_parameters(fields, template)?;
    let mut label = None;
    if let Some(strategy) = fields.optional("labelNodePrepareStrategy")? {
        let mut strategy = Fields::of(strategy)?;
        let key = strategy.required("labelKey")?;
        let mut values: Vec<String> = strategy.or_default("labelValues")?;
        values.extend(strategy.optional::<String>("labelValue")?);
        strategy.end().map_err(|problem| format!("labelNodePrepareStrategy: {problem}"))?;
        if values.is_empty() {
            return Err("labelNodePrepareStrategy: \"labelValues\" is missing".to_owned());
        }
        label = Some(NodeLabel::InTurn(key, values));
    }
    if let Some(strategy) = fields.optional("uniqueNodeLabelStrategy")? {
        let mut strategy = Fields::of(strategy)?;
        label = Some(NodeLabel::Unique(strategy.required("labelKey")?));
        strategy.end().map_err(|problem| format!("uniqueNodeLabelStrategy: {problem}"))?;
    }
    let (mut allocatable, mut csi) = (BTreeMap::new(), None);
    if let Some(strategy) = fields.optional("nodeAllocatableStrategy")? {
        let mut strategy = Fields::of(strategy)?;
        allocatable = strategy.or_default("nodeAllocatable")?;
        let drivers: BTreeMap<String, BTreeMap<String, u32>> = strategy.or_default("csiNodeAllocatable")?;
        let migrated_plugins = strategy.or_default("migratedPlugins")?;
        strategy.end().map_err(|problem| format!("nodeAllocatableStrategy: {problem}"))?;
        let count = |(driver, limits): (String, BTreeMap<String, u32>)| {
            let count = limits.get("count").copied();
            count.map(|count| (driver, count)).ok_or("csiNodeAllocatable: \"count\" is missing")
        };
        let counts = drivers.into_iter().map(count).collect::<Result<_, _>>()?;
        csi = Some(CsiNodes { counts, migrated_plugins });
    }
    Ok(CreateNodes { operation: index, count, template, label, allocatable, csi, declared_features: 0 })
}

fn create_pods(
    index: usize,
    fields: &mut Fields,
    default_pod: Option<&str>,
    templates: &Templates<'_>,
) -> Result<CreatePods, String> {
    let (count, factor): (usize, usize) =
        (fields.required("count")?, fields.optional("countMultiplier")?.unwrap_or(1));
    let count = count.checked_mul(factor).ok_or("\"count\" times \"countMultiplier\" is too large")?;
    let namespace = fields.optional("namespace")?.unwrap_or_else(|| default_namespace(index));
    let template = fields.optional("podTemplatePath")?.or_else(|| default_pod.map(str::to_owned));
    let is_measured = fields.or_default("collectMetrics")?;
    let waits = !fields.or_default::<bool>("skipWaitToCompletion")?;
    let volume = templates.of(fields.optional("persistentVolumeTemplatePath")?)?;
    let claim = templates.of(fields.optional("persistentVolumeClaimTemplatePath")?)?;
    if volume.is_some() != claim.is_some() {
        let both = "\"persistentVolumeTemplatePath\" and \"persistentVolumeClaimTemplatePath\"";
        return Err(format!("{both} belong together"));
    }
    let is_steady: bool = fields.or_default("steadyState")?;
    let lasts = fields.optional::<String>("duration")?.map(|text| duration(&text)).transpose()?;
    let steady = match (is_steady, lasts) {
        (true, Some(lasts)) if !lasts.is_zero() => Some(lasts),
        (true, _) => return Err("\"steadyState\" needs a \"duration\"".to_owned()),
        (false, _) => None,
    };
    if is_steady && !waits {
        return Err("\"steadyState\" and \"skipWaitToCompletion\" exclude each other".to_owned());
    }
    if is_measured && !waits {
        return Err("\"collectMetrics\" and \"skipWaitToCompletion\" exclude each other".to_owned());
    }
    let (template, volumes) = (with_parameters(fields, templates.of(template)?)?, volume.zip(claim));
    Ok(CreatePods { count, namespace, template, is_measured, waits, volumes, steady })
}

fn churn(index: usize, fields: &mut Fields, templates: &Templates<'_>) -> Result<Churn, String> {
    let mode: String = fields.required("mode")?;
    let recreates = match mode.as_str() {
        "create" => false,
        "recreate" => true,
        other => return Err(format!("\"mode\" is \"create\" or \"recreate\", not {other:?}")),
    };
    let number = fields.or_default("number")?;
    if recreates && number == 0 {
        return Err("mode \"recreate\" needs \"number\"".to_owned());
    }
    let milliseconds = fields.optional("intervalMilliseconds")?.unwrap_or(CHURN_MILLISECONDS);
    let namespace = fields.optional("namespace")?.unwrap_or_else(|| default_namespace(index));
    let paths: Vec<String> = fields.required("templatePaths")?;
    let templates = paths.iter().map(|path| templates.get(path)).collect::<Result<_, _>>()?;
    // An interval of zero would never let another task run.
    let interval = Duration::from_millis(milliseconds.max(1));
    Ok(Churn { recreates, number, interval, namespace, templates })
}

fn stage(fields: &mut Fields) -> Result<Stage, String> {
    match fields.optional::<String>("stageRequirement")?.as_deref() {
        None | Some("Scheduled") => Ok(Stage::Scheduled),
        Some("Attempted") => Ok(Stage::Attempted),
        Some(other) => Err(format!("\"stageRequirement\" is \"Scheduled\" or \"Attempted\", not {other:?}")),
    }
}

/// The pods that an operation is about.
fn selection(fields: &mut Fields) -> Result<PodSelection, String> {
    Ok(PodSelection {
        namespaces: fields.or_default("namespaces")?,
        labels: fields.or_default("labelSelector")?,
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_non_negative(text).map_err(|error| format!("\"duration\": {error}"))
}

/// The namespace of an operation that names none.
fn default_namespace(index: usize) -> String {
    format!("namespace-{index}")
}
