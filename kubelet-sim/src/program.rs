//! The program of a simulated container: its own command if the simulated shell knows it, otherwise only its
//! script. Pure.

use crate::pod_object::PodObject;
use crate::{behavior, process_end};
use kstore_container_sim::{check_runnable, is_shell};

/// The program of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// The program of its image, which is not simulated.
    Image,
    /// Annotations script the end of its runs.
    Scripted,
    /// It waits for a client to attach and type.
    Attached,
    /// The simulated shell runs this command.
    Shell(Vec<String>),
    /// The command is not run, for this reason.
    NotRun(String),
}

/// Images without an entrypoint, for which arguments without a command are the command.
const WITHOUT_ENTRYPOINT: [&str; 8] =
    ["busybox", "alpine", "debian", "ubuntu", "bash", "fedora", "centos", "toybox"];

/// The program of the `index`-th container of `pod`.
pub fn of(pod: &PodObject, index: usize) -> Program {
    let Some(spec) = pod.container(index) else { return Program::Image };
    if spec.stdin {
        return Program::Attached;
    }
    let argv: Vec<String> = spec.command.iter().chain(&spec.args).cloned().collect();
    let Some(first) = argv.first() else { return Program::Image };
    let script = behavior::script(&pod.metadata.annotations, &spec.name);
    if script.run.is_some() || script.exit_code.is_some() || script.oom_after.is_some() {
        return Program::Scripted;
    }
    if spec.command.is_empty() && !is_shell(first) && !is_without_entrypoint(&spec.image) {
        return Program::NotRun(
            "its arguments are for the image's entrypoint, which is not simulated".to_owned(),
        );
    }
    if process_end::is_barred(pod, &spec.name) {
        return Program::NotRun(
            "its command is not run: the simulation's process ended repeatedly while it ran".to_owned(),
        );
    }
    match check_runnable(&argv, &script.exec) {
        Ok(()) => Program::Shell(argv),
        Err(why) => Program::NotRun(format!("its command is not run: {why}")),
    }
}

/// Whether the simulated shell runs this command in the `index`-th container of `pod`, or an annotation answers it.
pub fn runs(pod: &PodObject, index: usize, argv: &[String]) -> bool {
    let Some(spec) = pod.container(index) else { return false };
    check_runnable(argv, &behavior::script(&pod.metadata.annotations, &spec.name).exec).is_ok()
}

fn is_without_entrypoint(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    WITHOUT_ENTRYPOINT.contains(&last.split([':', '@']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_runs_its_command_if_the_shell_knows_it_and_no_annotation_ends_it() {
        let of = |container: &str, annotation: &str| {
            let text = format!(
                "{{metadata: {{annotations: {{{annotation}}}}}, spec: {{containers: [{{name: c, {container}}}]}}}}"
            );
            of(&serde_yaml_ng::from_str(&text).unwrap(), 0)
        };
        let shell = |words: &[&str]| Program::Shell(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(of("image: a", ""), Program::Image);
        assert_eq!(of("image: a, command: [sh, -c], args: ['echo hi']", ""), shell(&["sh", "-c", "echo hi"]));
        assert_eq!(of("image: a, args: [sh, -c, 'echo hi']", ""), shell(&["sh", "-c", "echo hi"]));
        assert_eq!(of("image: 'x.io/busybox:1', args: [echo, hi]", ""), shell(&["echo", "hi"]));
        assert!(
            matches!(of("image: app, args: [echo, hi]", ""), Program::NotRun(why) if why.contains("entrypoint"))
        );
        let unknown = Program::NotRun(
            "its command is not run: \"/app\" is not one of the simulated shell's commands".to_owned(),
        );
        assert_eq!(of("image: a, command: [/app]", ""), unknown);
        assert_eq!(of("image: a, command: [sh], stdin: true", ""), Program::Attached);
        let ends = "kubelet-sim.kstore.io/exit-code: '3'";
        assert_eq!(of("image: a, command: [echo, hi]", ends), Program::Scripted);
    }
}
