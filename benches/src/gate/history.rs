//! The rows about the past: views, the commands that look back, and what superseded versions take on disk.

use super::result::{Limit, Quantity, Unit};
use super::table::Table;
use crate::binary::Binary;
use crate::history::{self, Commands, Past, Superseded, Views};
use crate::limits::{HISTORY_PODS, VIEW_DEFINITIONS};
use std::time::Duration;

/// Measures and adds the rows. A failed measurement becomes a row, and the others still run.
pub(super) async fn measure(binary: &Binary, table: &mut Table) {
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
    let what = "superseded versions of a rollout, after packing beside before";
    if let Some(Superseded { ratio, pod }) = table.succeeded(what, history::superseded(binary).await) {
        table.add(Quantity::new(what, Unit::Times, Limit::at_most(0.2, 0.4)), ratio);
        let what = format!("history of a rollout and an update of {HISTORY_PODS} replicas: bytes a pod");
        table.add(Quantity::new(what, Unit::Kibibytes, Limit::at_most(2.5, 7.5)), pod / 1024.0);
    }
}

fn add_time(table: &mut Table, what: impl Into<String>, (aim, bound): (f64, f64), measured: Duration) {
    table.add(
        Quantity::new(what, Unit::Milliseconds, Limit::at_most(aim, bound)),
        measured.as_secs_f64() * 1e3,
    );
}
