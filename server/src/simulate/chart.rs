//! A picture of a simulation: nodes, pods and the use of processors over time, as SVG. Pure.

use super::observed::Sample;
use std::fmt::Write as _;

const WIDTH: f64 = 800.0;
const PANEL: f64 = 160.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const GAP: f64 = 50.0;

/// A line of a panel: its name, its colour and its value at a moment.
type Line = (&'static str, &'static str, fn(&Sample) -> f64);

/// The panels, each with its title and lines.
const PANELS: [(&str, &[Line]); 3] = [
    ("nodes", &[("all", "#888888", |one| one.nodes as f64), ("ready", "#1f77b4", |one| one.ready as f64)]),
    (
        "pods",
        &[("pending", "#d62728", |one| one.pending as f64), ("running", "#2ca02c", |one| one.running as f64)],
    ),
    ("requested processors, %", &[("used", "#9467bd", |one| one.used * 100.0)]),
];

/// Draws the samples, which are in the order of their times.
pub(super) fn draw(samples: &[Sample]) -> String {
    let height = (PANEL + GAP) * PANELS.len() as f64 + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (index, (title, lines)) in PANELS.iter().enumerate() {
        let top = 30.0 + (PANEL + GAP) * index as f64;
        // Writing into a text does not fail.
        let _ = panel(&mut svg, (title, lines), samples, top);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(
    svg: &mut String,
    (title, lines): (&str, &[Line]),
    samples: &[Sample],
    top: f64,
) -> std::fmt::Result {
    let end = samples.last().map_or(1.0, |last| last.at.as_secs_f64()).max(1.0);
    let values = lines.iter().flat_map(|(_, _, value)| samples.iter().map(value));
    let most = values.fold(1.0, f64::max);
    let (bottom, right) = (top + PANEL, WIDTH - RIGHT);
    let x = |seconds: f64| LEFT + (right - LEFT) * seconds / end;
    let y = |value: f64| bottom - PANEL * value / most;
    writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.0}\">{title}</text>", top - 8.0)?;
    writeln!(svg, "<path d=\"M{LEFT} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>")?;
    writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{most:.0}</text>",
        LEFT - 6.0,
        top + 8.0
    )?;
    writeln!(svg, "<text x=\"{:.0}\" y=\"{bottom:.0}\" text-anchor=\"end\">0</text>", LEFT - 6.0)?;
    writeln!(
        svg,
        "<text x=\"{right:.0}\" y=\"{:.0}\" text-anchor=\"end\">{:.1} h</text>",
        bottom + 16.0,
        end / 3600.0
    )?;
    for (index, (name, colour, value)) in lines.iter().enumerate() {
        let mut path = String::new();
        for sample in samples {
            let (x, y) = (x(sample.at.as_secs_f64()), y(value(sample)));
            match path.is_empty() {
                true => write!(path, "M{x:.1} {y:.1}")?,
                // A value holds until the next sample.
                false => write!(path, "H{x:.1}V{y:.1}")?,
            }
        }
        writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>")?;
        let at = right - 70.0 * (lines.len() - index) as f64;
        writeln!(svg, "<text x=\"{at:.0}\" y=\"{:.0}\" fill=\"{colour}\">{name}</text>", top - 8.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_go_from_the_first_sample_to_the_last() {
        let sample = |hours: u64, nodes, used| Sample {
            at: Duration::from_secs(hours * 3600),
            nodes,
            used,
            ..Sample::default()
        };
        let svg = draw(&[sample(0, 2, 0.0), sample(12, 4, 0.5), sample(24, 4, 1.0)]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("24.0 h") && svg.contains("M60.0 110.0H420.0V30.0H780.0V30.0"), "{svg}");
        assert!(draw(&[]).contains("</svg>"));
    }
}
