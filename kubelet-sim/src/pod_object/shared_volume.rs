//! Volumes that a simulated container and a program of this machine would share: each would see only its own files, so neither is created.
//! Pure.

use super::{ContainerSpec, PodObject};

/// The reason why the `index`-th container of `pod` cannot be created: it mounts a volume for programs to write to, which containers of the
/// pod mount in memory and on this machine.
pub fn problem(pod: &PodObject, index: usize) -> Option<String> {
    let is_on_machine = |spec: &ContainerSpec| spec.program.is_some();
    if pod.spec.is_real || pod.spec.volumes.written.is_empty() || !pod.containers().any(is_on_machine) {
        return None;
    }
    let own = pod.container(index)?;
    let mounts = |spec: &ContainerSpec, volume: &String| {
        spec.needs.as_ref().is_some_and(|needs| needs.mounts.iter().any(|mount| mount.volume == *volume))
    };
    let is_shared = |volume: &&String| {
        // Ephemeral containers, which come later, do not keep others from restarting.
        let others = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let mut others = others.filter(|spec| is_on_machine(spec) != is_on_machine(own));
        mounts(own, volume) && others.any(|other| mounts(other, volume))
    };
    let volume = pod.spec.volumes.written.iter().find(is_shared)?;
    Some(format!(
        "volume \"{volume}\" is shared by a simulated and a host container, which would not see each other's files; map the images of \
         both to programs with --image"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_host_runtime::MappedProgram;
    use std::path::Path;
    use std::sync::Arc;

    /// The refusals of the containers of a pod, whose container `op` is a program of this machine and mounts `of_op`; the others mount
    /// `of_others`.
    fn problems(of_op: &str, of_others: &str) -> Vec<bool> {
        let text = format!(
            "{{spec: {{volumes: [{{name: scratch, emptyDir: {{}}}}, {{name: claim, persistentVolumeClaim: {{claimName: c}}}}, \
             {{name: path, hostPath: {{path: /x}}}}, {{name: map, configMap: {{name: m}}}}, {{name: fields, downwardAPI: {{}}}}], \
             initContainers: [{{name: op, volumeMounts: [{{name: {of_op}, mountPath: /a}}]}}], \
             containers: [{{name: other, volumeMounts: [{{name: {of_others}, mountPath: /b}}]}}, {{name: bare}}]}}}}"
        );
        let mut pod: PodObject = serde_yaml_ng::from_str(&text).unwrap();
        let none: Vec<_> = (0..3).map(|index| problem(&pod, index)).collect();
        assert_eq!(none, [None, None, None], "all are simulated");
        let program = MappedProgram { path: Arc::from(Path::new("/bin/true")), refusal: None };
        pod.spec.init_containers[0].program = Some(Arc::new(program));
        let problems = (0..3).map(|index| problem(&pod, index)).collect::<Vec<_>>();
        for text in problems.iter().flatten() {
            assert!(
                text.starts_with(&format!("volume \"{of_op}\" is shared by a simulated and a host")),
                "{text}"
            );
        }
        problems.iter().map(Option::is_some).collect()
    }

    #[test]
    fn a_written_volume_has_one_place() {
        for volume in ["scratch", "claim", "path"] {
            assert_eq!(problems(volume, volume), [true, true, false], "{volume}");
        }
        assert_eq!(problems("scratch", "claim"), [false; 3]);
        for shown in ["map", "fields"] {
            assert_eq!(problems(shown, shown), [false; 3], "{shown} shows the same files to both");
        }
    }
}
