//! The answer about the place of a pod as text for people. Pure.

use kstore_cluster::{PlacementAnswer, PodState};
use kstore_scheduler::verdict::{Lack, NodeVerdict, PlacementTable};
use serde_json::Value;
use std::fmt::Write as _;

/// Nodes of a table, unless all are wanted.
const NODES: usize = 10;

/// The answer as text; with `all_nodes` the table has every node.
pub(crate) fn text(found: &PlacementAnswer, all_nodes: bool) -> String {
    let mut out = String::new();
    match found.state {
        PodState::Ended => {
            let _ = writeln!(out, "pod {} has ended; it needs no node", found.pod);
        }
        PodState::Gated => {
            let gates = found.gates.join(", ");
            let _ = writeln!(out, "pod {} waits for its scheduling gates: {gates}", found.pod);
        }
        PodState::Pending => pending(found, &mut out),
        PodState::Placed => placed(found, &mut out),
    }
    found.notes.iter().for_each(|note| {
        let _ = writeln!(out, "note: {note}");
    });
    if !found.unread.is_empty() {
        let _ = writeln!(out, "note: computed without {}, which cannot be read", found.unread.join(", "));
    }
    if let Some(why) = &found.table.contradiction {
        let _ = writeln!(out, "\nno node can have the pod: {why}");
    }
    if !found.table.nodes.is_empty() {
        out.push('\n');
        table(&mut out, &found.table, all_nodes);
    }
    suggestions(found, &mut out);
    out
}

fn pending(found: &PlacementAnswer, out: &mut String) {
    let _ = write!(out, "pod {} is pending", found.pod);
    match found.records.first() {
        Some(record) => {
            let _ = write!(out, "; {}", recorded(record));
        }
        None => out.push_str("; its scheduler has left no record here"),
    }
    out.push('\n');
    let recorded = found.records.first().and_then(|record| record["refused"]["message"].as_str());
    let condition = found.condition.as_ref().map(|(_, message)| message.as_str());
    let said = recorded.or(condition);
    if let Some(message) = said {
        let _ = writeln!(out, "{message}");
    }
    let Some(revision) = found.computed_at else { return };
    match &found.message {
        None => {
            let _ = writeln!(out, "as of #{revision} a node fits it: the next attempt places the pod");
        }
        Some(message) if said != Some(message.as_str()) => {
            let _ = writeln!(out, "computed from the state at #{revision}: {message}");
        }
        Some(_) => {
            let _ = writeln!(out, "(the same is computed from the state at #{revision})");
        }
    }
    if let Some((node, pods)) = &found.evictions {
        let _ = writeln!(out, "evictions would make room on {node}: {}", pods.join(", "));
    }
}

fn placed(found: &PlacementAnswer, out: &mut String) {
    let _ = write!(out, "pod {} → {}", found.pod, found.node.as_deref().unwrap_or_default());
    if let Some((revision, by)) = &found.bound {
        let _ = write!(out, " at #{revision} by {by}");
    }
    match found.placed_record() {
        Some(record) => {
            let count = |name: &str| record[name].as_u64().unwrap_or_default();
            let (looked, fit, best) = (count("evaluated"), count("feasible"), count("best"));
            let _ = writeln!(out, "; recorded: {looked} nodes evaluated, {fit} feasible, {best} best");
        }
        None => out.push_str("; its scheduler has left no record here\n"),
    }
    let Some(revision) = found.computed_at else { return };
    let whose =
        if found.is_present { "the present state without the pod" } else { "the state at the decision" };
    let _ = write!(out, "computed from {whose}, #{revision}");
    out.push_str(match found.equals_record {
        Some(true) => ": equal to the record\n",
        Some(false) => {
            ": differs from the record, since other pods were being bound or the state was another\n"
        }
        None => "\n",
    });
}

fn suggestions(found: &PlacementAnswer, out: &mut String) {
    let Some(revision) = found.computed_at.filter(|_| !found.suggestions.is_empty()) else { return };
    let _ = writeln!(out, "\nSMALLEST CHANGES THAT HELP (each tried on a copy at #{revision})");
    let width = found.suggestions.iter().map(|one| one.change.chars().count()).max().unwrap_or(0);
    for one in &found.suggestions {
        let _ = writeln!(out, "  {:width$}   → {}", one.change, one.node);
    }
}

/// The newest record of a pending pod in a phrase.
fn recorded(record: &Value) -> String {
    let number = |name: &str| record[name].as_u64().unwrap_or_default();
    let (attempt, repeats) = (number("attempt"), number("repeats"));
    let attempts = match repeats {
        0 => format!("attempt {attempt}"),
        _ => format!("attempts {attempt} to {}, with equal results,", attempt + repeats),
    };
    let time = record["lastTime"].as_str().or(record["time"].as_str()).unwrap_or_default();
    let what = match record["result"].as_str() {
        Some("failed") => format!(" failed: {}", record["failed"]["message"].as_str().unwrap_or_default()),
        Some("placed") => format!(
            " chose {}, and its bind is not done",
            record["placed"]["node"].as_str().unwrap_or("a node")
        ),
        _ => " found no node".to_owned(),
    };
    format!("{attempts} at {time} (#{} seen){what}", number("seen"))
}

/// The table of nodes: with totals and scores if some fit, else with what each lacks.
fn table(out: &mut String, table: &PlacementTable, all_nodes: bool) {
    let shown = if all_nodes { table.nodes.len() } else { NODES.min(table.nodes.len()) };
    let has_fitting = table.nodes.first().is_some_and(|verdict| verdict.refusals.is_empty());
    let mut rows = vec![head(table, has_fitting)];
    let first = table.nodes.first();
    rows.extend(table.nodes[..shown].iter().map(|verdict| match has_fitting {
        true => score_row(verdict, table, first),
        false => filter_row(verdict, table),
    }));
    let columns = rows[0].len();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let line = row.iter().zip(&widths).fold(String::new(), |mut line, (cell, width)| {
            let _ = write!(line, "{cell:width$}   ");
            line
        });
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if shown < table.nodes.len() {
        let _ = writeln!(out, "… {} more nodes: --all-nodes, -o json", table.nodes.len() - shown);
    }
}

fn head(table: &PlacementTable, has_fitting: bool) -> Vec<String> {
    let mut head = vec!["NODE".to_owned()];
    if has_fitting {
        head.push("TOTAL".to_owned());
        head.extend(table.scorers.iter().map(|(name, weight)| format!("{} ×{weight}", short(name))));
        head.push(String::new());
    } else {
        head.push("LACKS".to_owned());
        head.extend(table.filters.iter().map(|name| short(name).to_owned()));
    }
    head
}

/// A row of a table in which nodes fit. The last cell says where the node is worse than the first one, or what it lacks.
fn score_row(verdict: &NodeVerdict, table: &PlacementTable, first: Option<&NodeVerdict>) -> Vec<String> {
    let mut row =
        vec![verdict.node.to_string(), verdict.total.map_or("–".to_owned(), |total| total.to_string())];
    row.extend(
        (0..table.scorers.len()).map(|at| verdict.scores.get(at).map_or(String::new(), i64::to_string)),
    );
    let last = match (verdict.refusals.is_empty(), first) {
        (false, _) => format!("lacks {}", lacks(verdict)),
        (true, Some(first)) if first.scores.len() == verdict.scores.len() => {
            let differences = table.scorers.iter().zip(first.scores.iter().zip(&verdict.scores));
            let worse = differences.filter_map(|((name, weight), (best, own))| {
                let by = weight * (own - best);
                (by != 0).then(|| format!("{by:+} {}", short(name)))
            });
            worse.collect::<Vec<_>>().join(", ")
        }
        (true, _) => String::new(),
    };
    row.push(last);
    row
}

fn filter_row(verdict: &NodeVerdict, table: &PlacementTable) -> Vec<String> {
    let refuses = |name: &&'static str| verdict.refusals.iter().any(|refusal| refusal.plugin == *name);
    let marks = table.filters.iter().map(|name| if refuses(name) { "✗" } else { "✓" }.to_owned());
    [verdict.node.to_string(), lacks(verdict)].into_iter().chain(marks).collect()
}

/// What a node lacks: amounts and taints where they are known, else the reasons.
fn lacks(verdict: &NodeVerdict) -> String {
    let texts = verdict.refusals.iter().flat_map(|refusal| match refusal.lacks.is_empty() {
        true => refusal.reasons.clone(),
        false => refusal.lacks.iter().map(lack).collect(),
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn lack(lack: &Lack) -> String {
    match lack {
        Lack::Resource { name, requested, free, .. } => {
            let missing = amount(name, requested.saturating_sub(*free));
            format!("{name} {missing} of {}", amount(name, *requested))
        }
        Lack::Toleration { key, value, effect } if value.is_empty() => {
            format!("toleration of {key}:{effect:?}")
        }
        Lack::Toleration { key, value, effect } => format!("toleration of {key}={value}:{effect:?}"),
    }
}

/// An amount as people write it: CPU in cores, memory and storage in the largest binary unit that leaves a whole number or two digits.
fn amount(resource: &str, amount: i64) -> String {
    const UNITS: [(&str, i64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let decimal = |whole: f64| {
        let text = format!("{whole:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match resource {
        "cpu" => {
            let text = format!("{:.3}", amount as f64 / 1000.0);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        "memory" | "ephemeral-storage" => match UNITS.iter().find(|(_, size)| amount >= *size) {
            Some((unit, size)) => format!("{}{unit}", decimal(amount as f64 / *size as f64)),
            None => amount.to_string(),
        },
        _ => amount.to_string(),
    }
}

/// A plugin's name as the head of a column.
fn short(plugin: &str) -> &str {
    match plugin {
        "TaintToleration" => "TaintTol",
        "NodeAffinity" => "NodeAff",
        "PodTopologySpread" => "Spread",
        "InterPodAffinity" => "InterPod",
        "NodeResourcesFit" => "Fit",
        "NodeResourcesBalancedAllocation" => "Balanced",
        "ImageLocality" => "Image",
        "NodeUnschedulable" => "Cordon",
        "NodePorts" => "Ports",
        "NodeName" => "Name",
        other => other,
    }
}
