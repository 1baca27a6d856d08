//! Metrics of priority levels and flow schemas, under the names of Kubernetes. Left out are its histograms of
//! samples that it takes every nanosecond or every request: they need a sampler that costs more than the
//! requests here.

use super::Fairness;
use super::flow::{FlowMetrics, Outcome};
use super::level::LevelSeats;
use kstore_metrics_text::{AtomicHistogram, Page};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of a level's gauge.
type SeatsGauge = fn(&LevelSeats) -> f64;

const SEATS: [(&str, &str, SeatsGauge); 9] = [
    ("nominal_limit_seats", "Nominal seats of the level.", |seats| seats.bounds.nominal.into()),
    ("lower_limit_seats", "The fewest seats of the level.", |seats| seats.bounds.lower.into()),
    ("upper_limit_seats", "The most seats of the level.", |seats| seats.bounds.upper.into()),
    ("current_limit_seats", "Seats of the level now.", |seats| seats.current.into()),
    ("demand_seats_high_watermark", "The most seats needed in the last period.", |seats| {
        seats.demand.observed.highest
    }),
    ("demand_seats_average", "Average of the seats needed in the last period.", |seats| {
        seats.demand.observed.average
    }),
    ("demand_seats_stdev", "Standard deviation of the seats needed in the last period.", |seats| {
        seats.demand.observed.deviation
    }),
    ("demand_seats_smoothed", "Smoothed number of seats needed.", |seats| seats.demand.smoothed),
    ("target_seats", "Seats that the level wanted in the last division.", |seats| seats.target),
];

/// Requests of one schema in one level at a time.
#[derive(Default)]
struct Present {
    waiting: u64,
    waiting_seats: u64,
    running: u64,
    running_seats: u64,
}

type PresentGauge = fn(&Present) -> u64;

const PRESENT: [(&str, &str, PresentGauge); 4] = [
    ("current_inqueue_requests", "Requests that wait.", |present| present.waiting),
    ("current_inqueue_seats", "Seats that waiting requests need.", |present| present.waiting_seats),
    ("current_executing_requests", "Requests that run.", |present| present.running),
    ("current_executing_seats", "Seats of running requests.", |present| present.running_seats),
];

type Histograms = fn(&FlowMetrics) -> &AtomicHistogram;

/// The labels of a flow's level and schema, and its metrics.
type LabelledFlow<'a> = ([(&'a str, &'a str); 2], &'a Arc<FlowMetrics>);

/// A family with one more label: its name, its help text, the label, and the histogram of each value.
type SplitHistogram = (&'static str, &'static str, &'static str, [(&'static str, Histograms); 2]);

const HISTOGRAMS: [(&str, &str, Histograms); 3] = [
    ("request_queue_length_after_enqueue", "Length of the queue with the request that joined it.", |flow| {
        &flow.lengths
    }),
    ("work_estimated_seats", "Estimated seats of requests.", |flow| &flow.seats),
    ("watch_count_samples", "Watchers of the objects that requests write.", |flow| &flow.watchers),
];

fn name(short: &str) -> String {
    format!("apiserver_flowcontrol_{short}")
}

impl Fairness {
    /// Appends all families to a page.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        self.render_levels(page);
        let flows = self.metrics.lock().clone();
        let flows: Vec<LabelledFlow<'_>> = flows
            .iter()
            .map(|((level, schema), flow)| {
                ([("priority_level", level.as_str()), ("flow_schema", schema.as_str())], flow)
            })
            .collect();
        let family = name("rejected_requests_total");
        page.head(&family, "counter", "Rejected requests, by reason.");
        for (labels, flow) in &flows {
            for (reason, (_, text)) in Outcome::REJECTIONS.iter().enumerate() {
                let count = flow.rejected[reason].get();
                if count > 0 {
                    page.line(&family, &[labels[0], labels[1], ("reason", text)], count);
                }
            }
        }
        let family = name("dispatched_requests_total");
        page.head(&family, "counter", "Requests that ran.");
        for (labels, flow) in &flows {
            page.line(&family, labels, flow.dispatched.get());
        }
        for (short, help, histogram) in HISTOGRAMS {
            let family = name(short);
            page.head(&family, "histogram", help);
            for (labels, flow) in flows.iter().filter(|(_, flow)| !histogram(flow).is_empty()) {
                histogram(flow).render(page, &family, labels);
            }
        }
        render_times(page, &flows);
    }

    fn render_levels(&self, page: &mut Page<'_>) {
        let levels = self.active.read().levels.clone();
        for (short, help, value) in SEATS {
            let family = name(short);
            page.head(&family, "gauge", help);
            for level in levels.values() {
                page.line(&family, &[("priority_level", level.name.as_str())], value(&level.seats()));
            }
        }
        let family = name("seat_fair_frac");
        page.head(&family, "gauge", "Fraction of the wanted seats that levels got in the last division.");
        page.line(&family, &[], *self.fair_fraction.lock());
        let family = name("request_dispatch_no_accommodation_total");
        page.head(&family, "counter", "Times that the next request needed more seats than were free.");
        for level in levels.values() {
            page.line(&family, &[("priority_level", level.name.as_str())], level.counts().too_wide);
        }
        let mut present = BTreeMap::<(String, String), Present>::new();
        for level in levels.values() {
            level.each_request(|request, _| {
                let key = (level.name.clone(), request.about.flow.schema.name.clone());
                let (present, seats) = (present.entry(key).or_default(), u64::from(request.work.widest()));
                let (requests, all) = match request.started {
                    None => (&mut present.waiting, &mut present.waiting_seats),
                    Some(_) => (&mut present.running, &mut present.running_seats),
                };
                *requests += 1;
                *all += seats;
            });
        }
        for (short, help, value) in PRESENT {
            let family = name(short);
            page.head(&family, "gauge", help);
            for ((level, schema), present) in &present {
                page.line(&family, &[("priority_level", level), ("flow_schema", schema)], value(present));
            }
        }
    }
}

fn render_times(page: &mut Page<'_>, flows: &[LabelledFlow<'_>]) {
    let split: [SplitHistogram; 2] = [
        (
            "request_wait_duration_seconds",
            "Time that requests waited.",
            "execute",
            [("true", |flow| &flow.waits), ("false", |flow| &flow.vain_waits)],
        ),
        (
            "request_execution_seconds",
            "Time that requests ran; for watches, until they had begun.",
            "type",
            [("regular", |flow| &flow.runs), ("watch", |flow| &flow.watch_runs)],
        ),
    ];
    for (short, help, label, parts) in split {
        let family = name(short);
        page.head(&family, "histogram", help);
        for (labels, flow) in flows {
            for (value, histogram) in parts.iter().filter(|(_, histogram)| !histogram(flow).is_empty()) {
                histogram(flow).render(page, &family, &[labels[0], labels[1], (label, value)]);
            }
        }
    }
}
