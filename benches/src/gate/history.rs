//! The rows about the past: views, the commands that look back, what superseded versions take on disk, imports and recordings of other
//! clusters, and questions about the place of pods. Servers are on disk unless a row says otherwise.

use super::result::{Limit, Quantity, Unit};
use super::table::Table;
use crate::answers::{self, Answers};
use crate::binary::Binary;
use crate::foreign::{self, Imports, Recorded};
use crate::history::{self, Commands, Large, Past, Superseded, Views};
use crate::limits::{HISTORY_PODS, VIEW_DEFINITIONS};
use crate::process::Storage;
use std::time::Duration;

/// Measures and adds the rows. A failed measurement becomes a row, and the others still run.
pub(super) async fn measure(binary: &Binary, table: &mut Table) {
    reads(binary, table).await;
    superseded(binary, table).await;
    large(binary, table).await;
    imports(binary, table).await;
    recordings(binary, table).await;
    for storage in [Storage::Memory, Storage::Disk] {
        placements(binary, storage, table).await;
    }
}

/// Measures reads of the past, and the commands of small histories.
async fn reads(binary: &Binary, table: &mut Table) {
    let what = "reads in a view";
    if let Some(Past { get, list, list_changed }) = table.succeeded(what, history::past(binary).await) {
        for (what, aim, bound, measured) in [
            ("GET in a view beside GET, 64 connections, median", 3.0, 9.0, get),
            ("LIST of 10,000 pods in a view, a fifth changed since, beside LIST, median", 3.0, 9.0, list),
            (
                "LIST of 10,000 pods in a view, all changed since, beside LIST, median",
                8.0,
                24.0,
                list_changed,
            ),
        ] {
            table.add(Quantity::new(what, Unit::Times, Limit::at_most(aim, bound)), measured);
        }
    }
    let what = format!("first request to a view with {VIEW_DEFINITIONS} definitions");
    if let Some(Views { first, next }) = table.succeeded(&what, history::views(binary).await) {
        add_time(table, what, (60.0, 180.0), first);
        add_time(
            table,
            "a further request to it, beside one of the present, median: longer by",
            (1.0, 3.0),
            next,
        );
    }
    let what = "commands that look back";
    let commands = table.succeeded(what, history::commands(binary).await);
    if let Some(Commands { history, page, diff }) = commands {
        add_time(table, "`history` of an object with 1,000 versions, median", (50.0, 150.0), history);
        add_time(table, "`history --limit 100 -p paths` of that object, median", (20.0, 60.0), page);
        add_time(table, "`diff --stat` of 10,000 pods, a tenth changed, median", (500.0, 1_500.0), diff);
    }
}

async fn superseded(binary: &Binary, table: &mut Table) {
    let what = "superseded versions of a rollout, after packing beside before";
    if let Some(Superseded { ratio, pod }) = table.succeeded(what, history::superseded(binary).await) {
        table.add(Quantity::new(what, Unit::Times, Limit::at_most(0.2, 0.4)), ratio);
        let what = format!("history of a rollout and an update of {HISTORY_PODS} replicas: bytes a pod");
        table.add(Quantity::new(what, Unit::Kibibytes, Limit::at_most(2.5, 7.5)), pod / 1024.0);
    }
}

async fn large(binary: &Binary, table: &mut Table) {
    let what = "`diff` of 100,000 pods, 10,000 changed";
    let Some(Large { diff, stat, planned, undone }) = table.succeeded(what, history::large(binary).await)
    else {
        return;
    };
    add_time(table, format!("{what}, median"), (2_000.0, 6_000.0), diff);
    add_time(table, "`diff --stat` of the same, median", (500.0, 1_500.0), stat);
    add_time(
        table,
        "`undo --since` of writes to 1,000 of these pods, planned, median",
        (1_000.0, 3_000.0),
        planned,
    );
    add_time(table, "the same, carried out", (2_000.0, 6_000.0), undone);
}

async fn imports(binary: &Binary, table: &mut Table) {
    let what = "`import --kubeconfig` of 5,000 nodes and 100,000 pods";
    let Some(imports) = table.succeeded(what, foreign::imports(binary).await) else { return };
    let Imports { listed, listed_memory, opened_per_gibibyte, opened_memory } = imports;
    add_time(table, what, (60_000.0, 180_000.0), listed);
    let peak = "its largest resident memory, beside the objects' JSON";
    // It holds all objects decoded until it has written them: 12.3 times their JSON when it was first measured.
    table.add(Quantity::new(peak, Unit::Times, Limit::at_most(2.0, 16.0)), listed_memory);
    let what = "import of a snapshot of these objects and first answer, a GiB of the file";
    add_time(table, what, (20_000.0, 60_000.0), opened_per_gibibyte);
    table
        .add(Quantity::new(format!("{peak}, of that"), Unit::Times, Limit::at_most(2.2, 6.6)), opened_memory);
}

async fn recordings(binary: &Binary, table: &mut Table) {
    let what = "recorder at 1,000 changes a second";
    let recorded = table.succeeded(what, foreign::recorded(binary).await);
    let Some(Recorded { processor, lost, replayed }) = recorded else { return };
    let processor_limit = Limit::at_most(20.0, 60.0);
    table.add(Quantity::new(format!("{what}: processor"), Unit::PercentOfCore, processor_limit), processor);
    let none = Limit::at_most(0.0, 0.0);
    table.add(Quantity::new("changes that are not in the recording, of 10,000", Unit::Number, none), lost);
    add_time(table, "`replay --speed max` of 10,000 changes, from its start", (10_000.0, 30_000.0), replayed);
}

async fn placements(binary: &Binary, storage: Storage, table: &mut Table) {
    let name = storage.name();
    let what = format!("5,000 nodes with 25,000 pods, {name}");
    let answers = table.succeeded(&what, answers::answers(binary, storage).await);
    let Some(Answers { explained, explained_again, asked }) = answers else { return };
    add_time(table, format!("`explain --placement` of a pod, first; {what}"), (300.0, 900.0), explained);
    add_time(table, "of other pods, median", (50.0, 150.0), explained_again);
    let aim = if storage == Storage::Memory { 1_000.0 } else { 1_500.0 };
    add_time(table, "`what-if` of 1,000 more pods there, median", (aim, 3.0 * aim), asked);
}

fn add_time(table: &mut Table, what: impl Into<String>, (aim, bound): (f64, f64), measured: Duration) {
    table.add(
        Quantity::new(what, Unit::Milliseconds, Limit::at_most(aim, bound)),
        measured.as_secs_f64() * 1e3,
    );
}
