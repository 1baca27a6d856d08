//! The rows about custom resources: definitions, objects beside ConfigMaps of the same run, OpenAPI,
//! webhooks.

use super::milliseconds;
use super::result::{Limit, Quantity, Unit};
use super::table::Table;
use crate::binary::Binary;
use crate::custom::{self, Documents, Many, Rates, Reads, Visible};

/// Measures and adds the rows. A failed measurement becomes a row, and the others still run.
pub(super) async fn measure(binary: &Binary, table: &mut Table) {
    definitions(binary, table).await;
    objects(binary, table).await;
    documents(binary, table).await;
    let what = "latency that a webhook on loopback adds to a create, median";
    if let Some(more) = table.succeeded(what, custom::overhead(binary).await) {
        let limit = Limit::at_most(1.0, 3.0);
        table.add(Quantity::new(what, Unit::Milliseconds, limit), more.as_secs_f64() * 1e3);
    }
}

async fn definitions(binary: &Binary, table: &mut Table) {
    let what = "a definition with 20 rules, from POST to discovery, OpenAPI's index and a watch at its revision, p99";
    if let Some(Visible { usable, deleted }) = table.succeeded(what, custom::visible(binary).await) {
        let limit = Limit::at_most(10.0, 60.0);
        table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&usable, 0.99));
        let what = "a definition without objects, from DELETE to DELETED, p99";
        let limit = Limit::at_most(20.0, 100.0);
        table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&deleted, 0.99));
    }
    let what = "1,000 definitions of 36 KB, one after the other";
    if let Some(Many { took, last_to_first, resident }) = table.succeeded(what, custom::many(binary).await) {
        let limit = Limit::at_most(5_000.0, 20_000.0);
        table.add(Quantity::new(what, Unit::Milliseconds, limit), took.as_secs_f64() * 1e3);
        let limit = Limit::at_most(1.5, 4.0);
        table.add(
            Quantity::new(format!("{what}: the last 100 beside the first"), Unit::Times, limit),
            last_to_first,
        );
        let limit = Limit::at_most(150.0, 300.0);
        table
            .add(Quantity::new(format!("{what}: resident memory of each"), Unit::Kibibytes, limit), resident);
    }
}

async fn objects(binary: &Binary, table: &mut Table) {
    let what = "creates of a custom object, 64 connections, beside ConfigMaps";
    if let Some(Rates { config_maps, plain, ruled }) = table.succeeded(what, custom::rates(binary).await) {
        let limit = Limit::at_least(0.85, 0.6);
        table.add(Quantity::new(format!("{what} at {config_maps:.0}/s"), Unit::Times, limit), plain);
        let limit = Limit::at_least(0.7, 0.5);
        table.add(Quantity::new(format!("{what}, with three rules"), Unit::Times, limit), ruled);
    }
    let what = "LIST of 5,000 custom objects, beside as many ConfigMaps, median";
    if let Some(Reads { list, watch }) = table.succeeded(what, custom::reads(binary).await) {
        table.add(Quantity::new(what, Unit::Times, Limit::at_most(1.1, 1.6)), list);
        let what = "events of custom objects to 200 watchers, beside those of ConfigMaps";
        table.add(Quantity::new(what, Unit::Times, Limit::at_least(0.9, 0.6)), watch);
    }
}

async fn documents(binary: &Binary, table: &mut Table) {
    let what = "OpenAPI v3 of a group and version of 36 KB, first, median";
    let measured = table.succeeded(what, custom::documents(binary).await);
    let Some(Documents { v3_first, v3_again, v2_first, v2_changed }) = measured else { return };
    // Version 2 documents have megabytes, which a busy machine sends in many turns.
    let rows = [
        (what, v3_first, 5.0, 20.0),
        ("OpenAPI v3 of a group and version of 36 KB, again, median", v3_again, 1.0, 10.0),
        ("OpenAPI v2 with 100 definitions of 36 KB, gzip, first, median", v2_first, 50.0, 800.0),
        ("OpenAPI v2 with 100 definitions of 36 KB, gzip, after one change, median", v2_changed, 5.0, 80.0),
    ];
    for (what, times, aim, bound) in rows {
        let limit = Limit::at_most(aim, bound);
        table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&times, 0.5));
    }
}
