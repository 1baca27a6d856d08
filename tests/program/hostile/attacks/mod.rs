//! Attacks that once stopped the server, or filled its memory, against the program: each one is measured while a supervisor asks
//! for `/livez` and another tenant writes, each over new connections.
//!
//! The tests are short forms with generous bounds, since the machine may be busy. The test `report` does nothing unless
//! `KSTORE_ATTACK_REPORT` is set, as `.ci/checks/attacks` does: it measures the long forms one after the other, prints them as a
//! table, and has strict bounds. `KSTORE_SERVER` names another program for it.

mod connections;
mod containers;
mod etcd;
mod figures;
mod full_disk;
mod observer;
mod passwords;
mod requests;
mod selectors;
mod target;

use crate::SERVER;
use figures::{Bounds, Figures};
use futures::future::LocalBoxFuture;
use std::time::Duration;
use target::Target;

/// Attempts to stay within the bounds: a busy machine delays some of them, a defect all.
const ATTEMPTS: usize = 3;

/// Short forms for tests, and long forms for the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Test,
    Report,
}

impl Scale {
    /// How long an attack goes on that repeats its requests.
    fn time(self) -> Duration {
        Duration::from_secs(self.number(3, 10))
    }

    fn number<T>(self, test: T, report: T) -> T {
        match self {
            Self::Test => test,
            Self::Report => report,
        }
    }
}

/// Where the program keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    InMemory,
    /// In a directory of an existing cluster that was stopped when its storage was full: the alarm of the store is raised.
    Full,
}

/// One attack.
struct Attack {
    name: &'static str,
    /// Additional flags of the program.
    flags: &'static [&'static str],
    /// The limit of open files, if the attack uses up connections.
    files: Option<u32>,
    /// Whether the program also listens as an etcd.
    has_etcd: bool,
    /// Where the program keeps its data.
    data: Data,
    /// Names and passwords of users in `--basic-auth-file`.
    passwords: &'static [(&'static str, &'static str)],
    /// MiB by which the program may grow.
    memory: usize,
    /// Prepares what the attack needs, calls [`Target::begin`], and attacks. Returns the bytes that the attacker sent.
    run: for<'t> fn(&'t Target, Scale) -> LocalBoxFuture<'t, usize>,
}

impl Attack {
    const fn new(
        name: &'static str,
        memory: usize,
        run: for<'t> fn(&'t Target, Scale) -> LocalBoxFuture<'t, usize>,
    ) -> Self {
        let (flags, data) = (&["--nodes", "0"], Data::InMemory);
        Self { name, flags, files: None, has_etcd: false, data, passwords: &[], memory, run }
    }

    const fn with_flags(self, flags: &'static [&'static str]) -> Self {
        Self { flags, ..self }
    }

    const fn with_files(self, files: u32) -> Self {
        Self { files: Some(files), ..self }
    }

    const fn with_etcd(self) -> Self {
        Self { has_etcd: true, ..self }
    }

    const fn with_data(self, data: Data) -> Self {
        Self { data, ..self }
    }

    const fn with_passwords(self, passwords: &'static [(&'static str, &'static str)]) -> Self {
        Self { passwords, ..self }
    }
}

/// The attacks whose short forms are tests.
const TESTED: [&Attack; 18] = [
    &requests::TUNNEL_NAMES,
    &containers::PROGRAMS,
    &containers::OUTPUT,
    &containers::WORK,
    &requests::PATCH_DEPTH,
    &requests::CLAIMED_BODIES,
    &connections::STALLED_DOCUMENTS,
    &connections::STALLED_OBJECTS,
    &connections::WINDOW_ZERO,
    &connections::HELD_BY_USERS,
    &connections::HEALTH_WATCHES,
    &selectors::WATCHES,
    &selectors::LISTS,
    &requests::YAML_ALIASES,
    &requests::TINY_MAPS,
    &containers::LOG_STREAMS,
    &full_disk::WRITES,
    &passwords::FLOOD,
];

/// Further attacks of the report, which take longer, or have tests elsewhere.
const REPORTED: [&Attack; 3] = [&containers::REPLICAS, &etcd::STALLED_PARTS, &etcd::LARGE_RANGES];

async fn measure(program: &str, attack: &Attack, scale: Scale) -> Figures {
    let mut target = Target::start(program, attack).await;
    let sent = (attack.run)(&target, scale).await;
    target.end(attack.name, sent).await
}

/// Checks that the program withstands the short form of an attack.
async fn withstands(attack: &Attack) {
    let bounds = Bounds { memory: attack.memory, ..Bounds::GENEROUS };
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let figures = measure(SERVER, attack, Scale::Test).await;
        let failed = figures.exceeds(&bounds);
        if failed.is_empty() {
            return println!("{figures}");
        }
        let is_dead = figures.exit != "0";
        seen.push(format!("{figures}: {}", failed.join(", ")));
        if is_dead {
            break;
        }
    }
    panic!("{}", seen.join("\n"));
}

macro_rules! tests {
    ($($name:ident: $attack:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                withstands(&$attack).await;
            }
        )*
    };
}

tests! {
    many_names_in_the_first_message_of_a_tunnel_cost_little: requests::TUNNEL_NAMES;
    programs_of_containers_that_recurse_or_loop_leave_the_server_alive: containers::PROGRAMS;
    programs_of_containers_that_collect_output_hold_bounded_memory: containers::OUTPUT;
    programs_of_containers_that_work_without_end_delay_nobody: containers::WORK;
    json_patches_that_nest_by_moves_are_refused: requests::PATCH_DEPTH;
    claimed_bodies_do_not_keep_others_from_writing: requests::CLAIMED_BODIES;
    documents_that_are_never_taken_hold_bounded_memory: connections::STALLED_DOCUMENTS;
    objects_that_are_never_taken_hold_bounded_memory: connections::STALLED_OBJECTS;
    connections_without_a_window_do_not_lock_out_others: connections::WINDOW_ZERO;
    watches_of_several_users_do_not_lock_out_supervisors_and_administrators: connections::HELD_BY_USERS;
    endless_health_watches_without_credentials_are_bounded: connections::HEALTH_WATCHES;
    watches_with_long_selectors_delay_no_writes_of_others: selectors::WATCHES;
    lists_with_long_selectors_delay_nobody: selectors::LISTS;
    yaml_aliases_cost_what_their_bytes_cost: requests::YAML_ALIASES;
    json_of_tiny_maps_holds_bounded_memory: requests::TINY_MAPS;
    log_streams_of_one_user_leave_those_of_others: containers::LOG_STREAMS;
    a_full_disk_lets_the_server_start_and_serve_reads_and_deletions: full_disk::WRITES;
    wrong_passwords_delay_no_user_of_other_credentials: passwords::FLOOD;
    ranges_of_many_keys_hold_bounded_memory: etcd::LARGE_RANGES;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report() {
    if std::env::var_os("KSTORE_ATTACK_REPORT").is_none() {
        return;
    }
    let program = std::env::var("KSTORE_SERVER").unwrap_or_else(|_| SERVER.to_owned());
    println!("{program}\n\n{}", Figures::HEAD);
    let mut failures = Vec::new();
    for attack in TESTED.into_iter().chain(REPORTED) {
        let figures = measure(&program, attack, Scale::Report).await;
        let failed = figures.exceeds(&Bounds { memory: attack.memory, ..Bounds::STRICT });
        let verdict = if failed.is_empty() { "withstood".to_owned() } else { failed.join(", ") };
        println!("{figures} {verdict} |");
        if !failed.is_empty() {
            failures.push(format!("{}: {verdict}", attack.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
