//! Trace of the writes to an object and of the writes that they caused, as text in the report of a failed wait.

use crate::limits::SHOWN_WRITES;
use kstore_client::{Client, Gvr};
use serde::Deserialize;
use std::fmt::Write as _;

/// Response body of `/kstore/v1/trace`.
#[derive(Default, Deserialize)]
pub(crate) struct Trace {
    pub(crate) writes: Vec<TracedWrite>,
}

/// A write and the writes that it caused.
#[derive(Deserialize)]
pub(crate) struct TracedWrite {
    pub(crate) revision: i64,
    pub(crate) object: String,
    pub(crate) verb: String,
    pub(crate) agent: String,
    #[serde(default)]
    pub(crate) causes: Vec<i64>,
    pub(crate) children: Vec<TracedWrite>,
}

/// Reads the writes to an object and the writes that they caused.
///
/// # Errors
/// The trace cannot be read; the error is a text for the report.
pub(crate) async fn of(client: &Client, gvr: &Gvr, namespace: &str, name: &str) -> Result<Trace, String> {
    let resource = match gvr.group.as_ref() {
        "" => gvr.resource.to_string(),
        group => format!("{}.{group}", gvr.resource),
    };
    let path = format!("/kstore/v1/trace?resource={resource}&namespace={namespace}&name={name}");
    match client.get_path(&path).await {
        Ok(answer) => serde_json::from_slice::<Trace>(&answer).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The trace as text with a line for each write, indented below its cause; at most [`SHOWN_WRITES`] lines.
pub(crate) fn render(trace: &Trace) -> String {
    let mut text = String::new();
    let mut left = SHOWN_WRITES;
    for write in &trace.writes {
        render_write(&mut text, write, 1, &mut left);
    }
    if left == 0 {
        text += "  …\n";
    }
    text
}

fn render_write(text: &mut String, write: &TracedWrite, depth: usize, left: &mut usize) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    let TracedWrite { revision, object, verb, agent, children, .. } = write;
    writeln!(text, "{:indent$}{revision} {verb} {object} by {agent}", "", indent = 2 * depth)
        .expect("writing to a string cannot fail");
    children.iter().for_each(|child| render_write(text, child, depth + 1, left));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn writes_are_indented_below_their_causes_up_to_a_bound() {
        let write = |revision: i64, children: serde_json::Value| json!({"revision": revision, "object": "pods/default/a", "verb": "create", "agent": "test", "children": children});
        let trace = json!({"writes": [write(1, json!([write(2, json!([]))])), write(3, json!([]))]});
        let text = render(&serde_json::from_value(trace).unwrap());
        assert_eq!(
            text,
            "  1 create pods/default/a by test\n    2 create pods/default/a by test\n  3 create pods/default/a by test\n"
        );
        let many: Vec<_> = (0..100).map(|revision| write(revision, json!([]))).collect();
        let text = render(&serde_json::from_value(json!({"writes": many})).unwrap());
        assert_eq!((text.lines().count(), text.lines().last()), (SHOWN_WRITES + 1, Some("  …")));
    }
}
