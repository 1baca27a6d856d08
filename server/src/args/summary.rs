//! The end of the help, and answers to commands of other tools.

pub(super) const EXAMPLES: &str = "\
Examples:
  kstore-server                                  everything in this process, data in ./kstore-data
  kubectl --kubeconfig kstore-data/admin.kubeconfig get nodes

  kstore-server --in-memory --listen 127.0.0.1:0 a cluster without disk on a free port
  kstore-server run -- pytest tests/             a fresh cluster for one command, gone afterwards
  kstore-server --nodes 1000                     a thousand simulated nodes

  kstore-server --components apiserver           the apiserver alone, and elsewhere …
  kstore-server --components controllers --kubeconfig kstore-data/controllers.kubeconfig

  kstore-server --components apiserver --etcd-servers http://127.0.0.1:2379
                                                 one of several apiservers on an etcd

  kstore-server --components store --etcd-listen 127.0.0.1:2379
                                                 a plain etcd, without Kubernetes

Logging: warnings by default. RUST_LOG=info logs each request, start-up, leadership, compaction and alarms; \
RUST_LOG=info,kstore_apiserver::access=warn leaves requests out; RUST_LOG=kstore_pipeline=debug shows more of one crate.";

/// What to do instead of a command that other tools have, such as `kind create cluster`; `None` for other words.
pub(crate) fn of_other_tools(word: &str) -> Option<String> {
    let instead = match word {
        "start" | "up" | "serve" | "server" | "create" | "launch" | "init" => {
            "without a command kstore-server starts the server; `kstore-server run -- CMD` is a cluster for one command"
        }
        "down" | "delete" | "kill" | "shutdown" => {
            "`kstore-server stop --data-dir DIR` ends a server, and Ctrl-C where it runs in the foreground"
        }
        "get" | "apply" | "describe" | "logs" | "exec" | "wait" | "scale" => {
            "kubectl does that, with the kubeconfig that the server names when it is ready"
        }
        "status" | "verify" | "snapshot" | "salvage" => "it is a command of `kstore-server store`",
        _ => return None,
    };
    Some(format!("there is no command `{word}`: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::of_other_tools;
    use clap::Command;

    /// Widest line that cannot be broken: a flag with its value, and an example.
    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or_default()
    }

    /// The flags that a text of help lists.
    fn flags(text: &str) -> usize {
        text.lines().filter(|line| line.starts_with("  ") && line.trim_start().starts_with('-')).count()
    }

    #[test]
    fn words_of_other_tools_are_answered_and_are_no_commands() {
        for (word, said) in [
            ("start", "without a command kstore-server starts the server"),
            ("up", "without a command kstore-server starts the server"),
            ("create", "without a command kstore-server starts the server"),
            ("delete", "`kstore-server stop --data-dir DIR` ends a server"),
            ("snapshot", "`kstore-server store`"),
        ] {
            let text = of_other_tools(word).unwrap();
            assert!(
                text.starts_with(&format!("there is no command `{word}`: ")) && text.contains(said),
                "{text}"
            );
            assert!(Cli::try_parse_from(["kstore-server", word]).is_err(), "{word}");
        }
        assert_eq!(of_other_tools("run"), None);
    }

    #[test]
    fn short_help_has_the_flags_of_every_day_and_all_help_fits_the_terminal() {
        for name in ["", "run"] {
            let command = || -> Command {
                let mut all = Cli::command().term_width(80);
                all.build();
                match name {
                    "" => all,
                    name => all.find_subcommand(name).unwrap().clone(),
                }
            };
            let (short, long) =
                (command().render_help().to_string(), command().render_long_help().to_string());
            assert!((8..=18).contains(&flags(&short)), "{short}");
            assert!(flags(&long) > 60, "{long}");
            assert!(short.contains("--nodes") && !short.contains("--oidc-issuer-url"), "{short}");
            for text in [&short, &long] {
                assert!(widest(text) <= 80, "{} columns in {text}", widest(text));
            }
        }
    }
}
