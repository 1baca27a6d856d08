//! The program of a simulated container: its own command if the simulated shell knows it, otherwise only its
//! script. Pure.

use crate::behavior::Script;
use crate::known_image::{self, KnownImage};
use crate::limits::REPLACED_NAMES;
use crate::pod_object::{ContainerSpec, PodObject};
use crate::{behavior, process_end};
use kstore_container_sim::{
    NotRunnable, ScriptedAnswer, Server, check_runnable, has_program, is_shell, may_read_input,
};
use std::collections::BTreeMap;

/// The program of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// The program of its image, which is not simulated.
    Image,
    /// Annotations script the end of its runs.
    Scripted,
    /// It reads its standard input, and waits for a client to attach and type.
    Attached,
    /// The simulated shell runs this command.
    Shell(Vec<String>),
    /// It is a program of this machine, which its image is mapped to.
    Host,
    /// It is a container of a container runtime.
    Real,
    /// The command is not run, for this reason.
    NotRun(String),
    /// The image has no such program, as a container runtime says it.
    Missing(String),
}

/// The words of a container's command: its own, or those of its image.
fn command(known: Option<&'static KnownImage>, spec: &ContainerSpec) -> Vec<String> {
    match known.filter(|_| spec.command.is_empty()) {
        Some(KnownImage { wrapped: Some(program), .. }) => {
            let is_other = spec.args.first().is_some_and(|first| has_program(&BTreeMap::new(), first));
            let own = Some((*program).to_owned()).filter(|_| !is_other);
            own.into_iter().chain(spec.args.iter().cloned()).collect()
        }
        Some(known) => {
            let own = known.entrypoint.iter().map(|word| (*word).to_owned());
            let given =
                known.arguments.iter().filter(|_| spec.args.is_empty()).map(|word| (*word).to_owned());
            own.chain(given).chain(spec.args.iter().cloned()).collect()
        }
        None => spec.command.iter().chain(&spec.args).cloned().collect(),
    }
}

/// The command line of a container, as far as it is known.
pub fn command_line(pod: &PodObject, index: usize) -> String {
    let Some(spec) = pod.container(index) else { return String::new() };
    command(known_image::find(&spec.image), spec).join(" ")
}

/// Whether a container runs the program of its image.
fn is_own(known: &KnownImage, spec: &ContainerSpec) -> bool {
    spec.command.is_empty() || spec.command.first().map(String::as_str) == known.entrypoint.first().copied()
}

/// The words of the command of a container whose program may be a server of its image; `None` if it is none, or is not run.
pub fn server_command(pod: &PodObject, index: usize) -> Option<Vec<String>> {
    let spec = pod.container(index)?;
    let known = known_image::find(&spec.image)?;
    let argv = command(Some(known), spec);
    if !known_image::programs(&spec.image).contains_key(argv.first()?) {
        return None;
    }
    match of(pod, index) {
        Program::Shell(_) => Some(argv),
        Program::Image if known.is_dormant => Some(argv),
        _ => None,
    }
}

/// Whether the answer of a container's server to this request is a success, whatever its files and variables are.
pub fn is_well(pod: &PodObject, index: usize, port: u16, path: &str) -> bool {
    let Some((argv, spec)) = server_command(pod, index).zip(pod.container(index)) else { return false };
    let server = Server::of(&known_image::programs(&spec.image), &argv, &[], None);
    let code = server.filter(|server| server.listens(port)).and_then(|server| server.constant_answer(path));
    code.is_some_and(|code| (200..400).contains(&code))
}

/// The program of the `index`-th container of `pod`.
pub fn of(pod: &PodObject, index: usize) -> Program {
    let Some(spec) = pod.container(index) else { return Program::Image };
    if pod.spec.is_real {
        return Program::Real;
    }
    if spec.program.is_some() {
        let script = behavior::script(&pod.metadata.annotations, &spec.name);
        return if is_scripted(&script) { Program::Scripted } else { Program::Host };
    }
    let known = known_image::find(&spec.image);
    if spec.stdin && may_read_input(&command(known, spec)) {
        return Program::Attached;
    }
    if known.is_some_and(|known| known.is_dormant && is_own(known, spec)) {
        // A server of its image answers without running.
        let script = behavior::script(&pod.metadata.annotations, &spec.name);
        return if is_scripted(&script) { Program::Scripted } else { Program::Image };
    }
    let argv = command(known, spec);
    let Some(first) = argv.first() else { return Program::Image };
    let script = behavior::script(&pod.metadata.annotations, &spec.name);
    if is_scripted(&script) {
        return Program::Scripted;
    }
    if let Some(why) = missing(pod, spec, &argv) {
        return Program::Missing(why);
    }
    if spec.command.is_empty() && !is_shell(first) && known.is_none() {
        return Program::NotRun(
            "its arguments are for the image's entrypoint, which is not simulated".to_owned(),
        );
    }
    if process_end::is_barred(pod, &spec.name) {
        return Program::NotRun(
            "its command is not run: the simulation's process ended repeatedly while it ran".to_owned(),
        );
    }
    match check(&argv, &script.exec, &spec.image) {
        Ok(()) => Program::Shell(argv),
        Err(why) => Program::NotRun(format!("its command is not run: {why}")),
    }
}

/// What the log of a server says whose configuration a volume brings: it is not read.
pub fn ignored_configuration(spec: &ContainerSpec) -> Option<String> {
    let folder = known_image::find(&spec.image)?.configuration?;
    let is_within = |path: &str, folder: &str| {
        path.strip_prefix(folder.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_of_it = |path: &str| is_within(path, folder) || is_within(folder, path);
    let mount = spec.needs.as_ref()?.mounts.iter().find(|mount| is_of_it(&mount.path))?;
    Some(format!(
        "the configuration that a volume brings at {} is not read: the server is simulated",
        mount.path
    ))
}

/// What a container runtime says of a command that the image of a simulated container does not have.
pub fn missing(pod: &PodObject, spec: &ContainerSpec, argv: &[String]) -> Option<String> {
    if pod.spec.is_real || spec.program.is_some() {
        return None;
    }
    let why = known_image::missing(&spec.image, argv)?;
    let answers = behavior::script(&pod.metadata.annotations, &spec.name).exec;
    (!answers.contains_key(&argv.join(" "))).then_some(why)
}

/// Whether annotations say how the runs of a container end.
fn is_scripted(script: &Script) -> bool {
    script.run.is_some() || script.exit_code.is_some() || script.oom_after.is_some()
}

/// Whether a container's own command runs: in the simulated shell, as a program of this machine, or by a container runtime.
pub fn has_process(pod: &PodObject, index: usize) -> bool {
    ends_with_process(pod, index) || of(pod, index) == Program::Real
}

/// Whether a container's own command runs, and ends with this process.
pub fn ends_with_process(pod: &PodObject, index: usize) -> bool {
    matches!(of(pod, index), Program::Shell(_) | Program::Host)
}

/// Scripted answers by command line.
type Answers = BTreeMap<String, ScriptedAnswer>;

/// Checks a command of a container. `$(NAME)` is a variable that the kubelet replaces if it is no command of the shell.
fn check(argv: &[String], answers: &Answers, image: &str) -> Result<(), NotRunnable> {
    let (mut argv, programs) = (argv.to_vec(), known_image::programs(image));
    for _ in 0..REPLACED_NAMES {
        let checked = check_runnable(&argv, answers, &programs);
        let Err(NotRunnable::Command(name)) = &checked else { return checked };
        let variable = format!("$({name})");
        if !argv.iter().any(|word| word.contains(&variable)) {
            return checked;
        }
        argv.iter_mut().for_each(|word| *word = word.replace(&variable, &format!("${name}")));
    }
    check_runnable(&argv, answers, &programs)
}

/// Whether the simulated shell runs this command in the `index`-th container of `pod`, or an annotation answers it, or the container is one
/// of this machine or of a container runtime.
pub fn runs(pod: &PodObject, index: usize, argv: &[String]) -> bool {
    let Some(spec) = pod.container(index) else { return false };
    if matches!(of(pod, index), Program::Host | Program::Real) {
        return true;
    }
    let answers = behavior::script(&pod.metadata.annotations, &spec.name).exec;
    check(argv, &answers, &spec.image).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_that_it_does_not_read_its_configuration() {
        let of = |image: &str, path: &str| {
            let mounts = format!("volumeMounts: [{{name: v, mountPath: {path}}}]");
            let text = format!("{{spec: {{containers: [{{name: c, image: {image}, {mounts}}}]}}}}");
            let pod: PodObject = serde_yaml_ng::from_str(&text).unwrap();
            ignored_configuration(&pod.spec.containers[0])
        };
        let text = "the configuration that a volume brings at /etc/nginx/conf.d is not read: the server is simulated";
        assert_eq!(of("'nginx:1.27'", "/etc/nginx/conf.d").as_deref(), Some(text));
        for path in ["/etc/nginx", "/etc/nginx/nginx.conf", "/etc"] {
            assert!(of("nginx", path).is_some(), "{path}");
        }
        assert!(of("httpd", "/usr/local/apache2/conf/extra").is_some());
        for (image, path) in
            [("nginx", "/usr/share/nginx/html"), ("nginx", "/etc/nginxes"), ("app", "/etc/nginx")]
        {
            assert_eq!(of(image, path), None, "{image} {path}");
        }
    }

    #[test]
    fn a_mapped_image_runs_its_program_unless_an_annotation_ends_it() {
        let of = |annotation: &str| {
            let text = format!(
                "{{metadata: {{annotations: {{{annotation}}}}}, spec: {{containers: [{{name: c, image: nginx, command: [sh], stdin: true}}]}}}}"
            );
            let mut pod: PodObject = serde_yaml_ng::from_str(&text).unwrap();
            let path = std::sync::Arc::from(std::path::Path::new("/bin/true"));
            let program = kstore_host_runtime::MappedProgram { path, refusal: None };
            pod.spec.containers[0].program = Some(std::sync::Arc::new(program));
            assert_eq!(server_command(&pod, 0), None);
            (of(&pod, 0), runs(&pod, 0, &["no-such-command".to_owned()]))
        };
        assert_eq!(of(""), (Program::Host, true));
        assert_eq!(of("kubelet-sim.kstore.io/exit-code: '3'"), (Program::Scripted, false));
    }

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
        assert_eq!(of("image: 'k8s.io/agnhost:2'", ""), shell(&["/agnhost", "pause"]));
        assert_eq!(of("image: agnhost, args: [mounttest, -x]", ""), shell(&["/agnhost", "mounttest", "-x"]));
        assert_eq!(of("image: agnhost, command: [echo, hi]", ""), shell(&["echo", "hi"]));
        assert_eq!(of("image: agnhost, args: [netexec]", ""), shell(&["/agnhost", "netexec"]));
        assert!(
            matches!(of("image: agnhost, args: [inclusterclient]", ""), Program::NotRun(why) if why.contains("inclusterclient"))
        );
        assert_eq!(of("image: 'nginx:1.27'", ""), Program::Image);
        assert_eq!(of("image: http-echo, args: [-text=x]", ""), Program::Image);
        assert_eq!(of("image: nginx", "kubelet-sim.kstore.io/run-seconds: '3'"), Program::Scripted);
        let unknown = Program::NotRun(
            "its command is not run: \"/app\" is not one of the simulated shell's commands".to_owned(),
        );
        assert_eq!(of("image: a, command: [/app]", ""), unknown);
        let missing = "exec: \"nosuch\": executable file not found in $PATH";
        assert_eq!(of("image: busybox, command: [nosuch, x]", ""), Program::Missing(missing.to_owned()));
        assert_eq!(of("image: pause, command: [sh]", ""), Program::Missing(missing.replace("nosuch", "sh")));
        assert_eq!(of("image: 'k8s.gcr.io/pause:3.10'", ""), Program::Image);
        assert_eq!(of("image: busybox, command: [sh, -c, 'syn (;']", ""), shell(&["sh", "-c", "syn (;"]));
        let curl = "image: curlimages/curl";
        assert_eq!(of(&format!("{curl}, args: [-s, http://x/]"), ""), shell(&["curl", "-s", "http://x/"]));
        assert_eq!(of(&format!("{curl}, args: ['http://x/']"), ""), shell(&["curl", "http://x/"]));
        assert_eq!(of(&format!("{curl}, args: [sh, -c, 'echo a']"), ""), shell(&["sh", "-c", "echo a"]));
        assert_eq!(of(&format!("{curl}, command: [curl, http://x/]"), ""), shell(&["curl", "http://x/"]));
        let script = r#"A=1 echo "$(A)" $(B)"#;
        assert_eq!(of(&format!("image: a, command: [sh, -c, '{script}']"), ""), shell(&["sh", "-c", script]));
        let named = of("image: a, command: [sh, -c, '$(A) x']", "");
        assert!(matches!(named, Program::NotRun(why) if why.contains("a variable names")));
        assert_eq!(of("image: a, command: [sh], stdin: true", ""), Program::Attached);
        let script = "while true; do echo polo; sleep 2; done";
        let of_script = of(&format!("image: a, command: [sh, -c, '{script}'], stdin: true"), "");
        assert_eq!(of_script, shell(&["sh", "-c", script]), "it reads no input");
        let ends = "kubelet-sim.kstore.io/exit-code: '3'";
        assert_eq!(of("image: a, command: [echo, hi]", ends), Program::Scripted);
    }
}
