//! The table of all annotations. The parser, the page `ANNOTATIONS.md` and the suggestions for misspelled
//! names use it.

/// A documented annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The name after the prefix and the container's name.
    pub name: &'static str,
    /// Format of the annotation's value.
    pub value: &'static str,
    /// Effect of the annotation.
    pub effect: &'static str,
    /// Example of a valid value.
    pub example: &'static str,
    /// Whether it applies to the pod, not to one of its containers.
    pub whole_pod: bool,
}

const fn row(
    name: &'static str,
    value: &'static str,
    example: &'static str,
    effect: &'static str,
) -> Annotation {
    Annotation { name, value, effect, example, whole_pod: false }
}

/// All annotations, in the order of a container's life.
pub const ANNOTATIONS: &[Annotation] = &[
    Annotation {
        whole_pod: true,
        ..row(
            "sandbox-seconds",
            "delay",
            "2",
            "Making the pod's network takes this long. For the whole pod only.",
        )
    },
    row(
        "image-pull",
        "parts with commas: delay, `fail`, `fail=N`, `error=KIND`",
        "5s,fail=2,error=rate-limit",
        "Pulls of the image take this long. The first N pulls fail; without a number, all fail and the container never starts, \
         even if the node has the image. KIND is `not-found` (default), `unauthorized`, `rate-limit` or `unavailable`; alone it means `fail`.",
    ),
    row(
        "image-user",
        "number or name",
        "65532",
        "The user that the image names. Without it the image names none and runs as root, which `runAsNonRoot` refuses.",
    ),
    row("create-seconds", "delay", "uniform(0.1,0.5)", "Creating the container takes this long."),
    row("start-seconds", "delay", "250ms", "Starting the created container takes this long."),
    row(
        "started-after",
        "delay or `never`",
        "20s",
        "When a startup probe would pass, counted from the container's start.",
    ),
    row(
        "ready-after",
        "delay or `never`",
        "5s",
        "When a readiness probe would pass, counted from the container's start. Holds without a probe too.",
    ),
    row(
        "unready",
        "two delays with a comma",
        "60s,20s",
        "From when, counted from the container's start, and how long it is not ready.",
    ),
    row(
        "unhealthy-after",
        "delay",
        "90s",
        "When a liveness probe begins to fail, counted from the container's start.",
    ),
    row("run-seconds", "delay", "30s", "Each run ends after this time. Its command is not run."),
    row(
        "exit-code",
        "0 to 255",
        "3",
        "The code with which a run ends. Alone, the run ends at once. Its command is not run.",
    ),
    row(
        "crash-times",
        "number",
        "3",
        "Only the first so many runs end by `run-seconds`, `exit-code` or `oom-after`; later ones go on.",
    ),
    row(
        "oom-after",
        "delay",
        "10s",
        "The run is killed for want of memory after this time: `OOMKilled`, code 137. Its command is not run.",
    ),
    row(
        "stop",
        "parts with commas: delay, `ignore`, `code=N`",
        "5s,code=143",
        "How SIGTERM is answered: the container ends after the delay (300 ms by default) with code N (0 by default), or ignores it and is \
         killed with code 137 when its grace period is over.",
    ),
    row(
        "logs",
        "text",
        "listening on :8080",
        "Each run begins by logging these lines, instead of saying that it is simulated.",
    ),
    row("logs-stderr", "text", "warning: no config", "The same on standard error, after `logs`."),
    row(
        "log-line",
        "text",
        "tick {n}",
        "A line that is logged again and again; `{n}` counts from 1. Needs `log-every`.",
    ),
    row(
        "log-every",
        "fixed delay, 1ms or more",
        "10s",
        "How often `log-line` is logged. Alone, the line is `{n}`.",
    ),
    row(
        "exec",
        "JSON object",
        r#"{"redis-cli ping": "PONG\n", "check": {"stderr": "no\n", "code": 1, "after": 2}}"#,
        "Answers to commands, by their words joined by blanks: a text for standard output, or an object of `stdout`, `stderr`, `code`, \
         `after` (seconds).",
    ),
    row(
        "http",
        "text",
        "<h1>hello</h1>",
        "What the container's ports answer to HTTP; HTML if it begins with `<`.",
    ),
    row(
        "cpu",
        "quantity of processors",
        "250m",
        "What the container uses of processors while it runs, as `kubectl top` and autoscalers see it; without it nothing. A change takes \
         effect at once, on a living pod too.",
    ),
    row(
        "memory",
        "quantity of bytes",
        "64Mi",
        "What it holds of memory while it runs; without it nothing. It may be more than its limit: see `oom-after`.",
    ),
];

/// The annotation with this name.
pub fn find(name: &str) -> Option<&'static Annotation> {
    ANNOTATIONS.iter().find(|annotation| annotation.name == name)
}

/// The element of `known` with the smallest edit distance from `name`.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|known| strsim::osa_distance(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behavior::{ANNOTATION_PREFIX, check};
    use std::collections::BTreeMap;

    /// The page that users read.
    fn page() -> String {
        let mut page = format!(
            "# Annotations of simulated pods\n\n\
             A pod with an annotation `{ANNOTATION_PREFIX}NAME` behaves as its value says, in all of its containers;\n\
             `{ANNOTATION_PREFIX}CONTAINER.NAME` is about one container and wins over the general one. What is not understood\n\
             is left out, and told in an event `InvalidSimulation` of the pod with the nearest right name.\n\n\
             A delay is a number of seconds (`2`, `0.5`), a duration of Go (`250ms`, `5s`, `1m30s`, `1h`), or `uniform(a,b)` of two of\n\
             these, drawn anew each time; at most ten years.\n\n\
             | name | value | example | effect |\n|---|---|---|---|\n"
        );
        for Annotation { name, value, effect, example, .. } in ANNOTATIONS {
            page.push_str(&format!("| `{name}` | {value} | `{example}` | {effect} |\n"));
        }
        page.push_str(
            "\nThis page is made from `src/behavior/table.rs`: `UPDATE_ANNOTATIONS=1 cargo test -p kstore-kubelet-sim --lib annotations`.\n",
        );
        page
    }

    #[test]
    fn the_page_of_annotations_shows_the_table_of_the_code() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("ANNOTATIONS.md");
        if std::env::var_os("UPDATE_ANNOTATIONS").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), page());
    }

    #[test]
    fn the_examples_of_all_annotations_are_valid() {
        for Annotation { name, example, whole_pod, .. } in ANNOTATIONS {
            let keys = if *whole_pod { vec![*name] } else { vec![name, *name] };
            let key = if keys.len() > 1 { format!("c.{name}") } else { (*name).to_owned() };
            let annotations = BTreeMap::from([(format!("{ANNOTATION_PREFIX}{key}"), (*example).to_owned())]);
            assert_eq!(check(&annotations, &["c"]), [], "{name}");
        }
    }

    #[test]
    fn the_nearest_name_takes_the_fewest_edits() {
        let near = |name: &str| nearest(name, ANNOTATIONS.iter().map(|annotation| annotation.name)).unwrap();
        assert_eq!(near("run-secs"), "run-seconds");
        assert_eq!(near("exti-code"), "exit-code");
        assert_eq!(near("imagepull"), "image-pull");
    }
}
