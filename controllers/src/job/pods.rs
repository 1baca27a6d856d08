//! Pods of a Job: annotations, construction, and order of deletion. Pure.

use super::indexes::Indexes;
use super::policy::pod_failure;
use crate::claim::controller_ref;
use crate::view::{Phase, Pod};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Finalizer that keeps a pod until its Job has counted it.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label with the completion index of a pod.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Environment variable with the completion index.
const COMPLETION_INDEX_ENV: &str = "JOB_COMPLETION_INDEX";
/// Annotation with the number of counted failures of earlier pods of this index.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation with the number of failures of earlier pods of this index that the pod failure policy ignored.
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Largest length of the `generateName` prefix; the server cuts longer ones.
const LONGEST_PREFIX: usize = 58;

/// Whether the Job has not counted this pod yet.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|f| f == TRACKING)
}

/// The completion index of a pod, if valid.
pub(crate) fn completion_index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.get(COMPLETION_INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// The completion indexes of these pods.
pub(crate) fn completion_indexes<'p>(pods: impl IntoIterator<Item = &'p Arc<Pod>>) -> BTreeSet<i32> {
    pods.into_iter().filter_map(|pod| completion_index(pod)).collect()
}

fn count_in(pod: &Pod, annotation: &str) -> i32 {
    let count = pod.metadata.annotations.get(annotation).and_then(|text| text.parse().ok());
    count.filter(|count| *count >= 0).unwrap_or(0)
}

/// Number of counted failures before this pod, for its index.
pub(crate) fn index_failures(pod: &Pod) -> i32 {
    count_in(pod, FAILURES)
}

/// Number of all failures before this pod, for its index, including ignored ones.
pub(crate) fn all_index_failures(pod: &Pod) -> i32 {
    count_in(pod, FAILURES).saturating_add(count_in(pod, IGNORED_FAILURES))
}

/// The pod that a Job without indexes creates.
pub(crate) fn pod_of(job: &Job, spec: &JobSpec) -> core::Pod {
    let meta = spec.template.metadata.clone().unwrap_or_default();
    let mut finalizers = meta.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|f| f == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    core::Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", name(job))),
            namespace: job.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![controller_ref("batch/v1", "Job", &job.metadata)]),
            ..ObjectMeta::default()
        },
        spec: spec.template.spec.clone(),
        status: None,
    }
}

/// The pod for one completion index. `replaced` is the failed pod that it replaces, whose failure counts it
/// continues.
pub(crate) fn indexed_pod_of(
    job: &Job,
    spec: &JobSpec,
    index: i32,
    replaced: Option<&Arc<Pod>>,
) -> core::Pod {
    let mut pod = pod_of(job, spec);
    let suffix = format!("-{index}-");
    let prefix: String = name(job).chars().take(LONGEST_PREFIX.saturating_sub(suffix.len())).collect();
    pod.metadata.generate_name = Some(prefix + &suffix);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(COMPLETION_INDEX.into(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        let is_counted = |pod| pod_failure(spec.pod_failure_policy.as_ref(), pod).is_counted();
        let count = |annotation, counts| {
            replaced.map_or(0, |pod| {
                count_in(pod, annotation).saturating_add(i32::from(is_counted(pod) == counts))
            })
        };
        annotations.insert(FAILURES.into(), count(FAILURES, true).to_string());
        let ignored = count(IGNORED_FAILURES, false);
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.into(), ignored.to_string());
        }
    }
    pod.metadata.labels.get_or_insert_default().insert(COMPLETION_INDEX.into(), index.to_string());
    let template = pod.spec.get_or_insert_default();
    template.hostname = Some(format!("{}-{index}", name(job)));
    let containers = template.containers.iter_mut().chain(template.init_containers.iter_mut().flatten());
    containers.for_each(add_completion_index);
    pod
}

fn name(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

/// Adds the environment variable with the index, unless the template defines it.
fn add_completion_index(container: &mut core::Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == COMPLETION_INDEX_ENV) {
        return;
    }
    let field = core::ObjectFieldSelector {
        field_path: format!("metadata.labels['{COMPLETION_INDEX}']"),
        ..core::ObjectFieldSelector::default()
    };
    variables.push(core::EnvVar {
        name: COMPLETION_INDEX_ENV.into(),
        value_from: Some(core::EnvVarSource { field_ref: Some(field), ..core::EnvVarSource::default() }),
        value: None,
    });
}

/// Sort key for deletion: unassigned, Pending, unready, recently ready, often restarted and younger pods come
/// first.
type Rank = (bool, u8, bool, Reverse<Option<Timestamp>>, Reverse<i32>, Reverse<Option<Timestamp>>, String);

fn rank(pod: &Pod) -> Rank {
    let phase = match pod.status.phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        Phase::Running | Phase::Succeeded | Phase::Failed => 2,
    };
    let containers = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    (
        !pod.spec.node_name.is_empty(),
        phase,
        pod.ready(),
        Reverse(pod.ready_since()),
        Reverse(containers.map(|c| c.restart_count).max().unwrap_or(0)),
        Reverse(pod.metadata.creation_timestamp.as_ref().map(|t| t.0)),
        pod.metadata.uid.clone(),
    )
}

/// The active pods to delete: at least `excess`. In an Indexed Job with `completions`, also all pods without
/// a valid index, and all but one pod per index.
pub(crate) fn victims(active: &[Arc<Pod>], excess: usize, completions: Option<i32>) -> Vec<Arc<Pod>> {
    let mut ranked: Vec<&Arc<Pod>> = active.iter().collect();
    ranked.sort_by_cached_key(|pod| rank(pod));
    let (mut victims, mut rest) = (vec![], vec![]);
    if let Some(completions) = completions {
        // Of several pods of one index, the one that sorts last stays.
        let mut stays = BTreeMap::new();
        for pod in &ranked {
            if let Some(index) = completion_index(pod).filter(|index| *index < completions) {
                stays.insert(index, pod.metadata.uid.as_str());
            }
        }
        for pod in ranked {
            let index = completion_index(pod);
            let is_kept = index.is_some_and(|index| stays.get(&index) == Some(&pod.metadata.uid.as_str()));
            if is_kept { rest.push(pod) } else { victims.push(Arc::clone(pod)) }
        }
    } else {
        rest = ranked;
    }
    let more = excess.saturating_sub(victims.len());
    victims.extend(rest.into_iter().take(more).cloned());
    victims
}

/// The failed pod of each index that waits for a replacement. It keeps its finalizer until then, because its
/// annotations store the failure counts. `unfinished` tells whether an index is neither done nor failed and
/// has no active pod.
pub(crate) fn awaiting_replacement<'p>(
    failed: impl IntoIterator<Item = &'p Arc<Pod>>,
    unfinished: impl Fn(i32) -> bool,
) -> BTreeMap<i32, Arc<Pod>> {
    let mut last: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
    let age = |pod: &Pod| (all_index_failures(pod), super::backoff::finished(pod));
    for pod in failed {
        let Some(index) = completion_index(pod).filter(|index| unfinished(*index)) else { continue };
        let is_later = last.get(&index).is_none_or(|other| {
            let ((count, end), (other_count, other_end)) = (age(pod), age(other));
            other_count <= count && other_end <= end
        });
        if is_later {
            last.insert(index, Arc::clone(pod));
        }
    }
    last
}

/// The next indexes to create pods for: the lowest that are neither done nor failed nor active.
pub(crate) fn pending_indexes(
    done: &Indexes,
    lost: Option<&Indexes>,
    taken: &BTreeSet<i32>,
    count: usize,
    completions: i32,
) -> Vec<i32> {
    let not_pending = done.with(taken);
    let not_pending = lost.map_or_else(|| not_pending.clone(), |lost| not_pending.union(lost));
    not_pending.first_missing(count, completions)
}
