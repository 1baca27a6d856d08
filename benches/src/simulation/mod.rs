//! Clusters of `kstore-testing` in this process, under virtual time: how long a virtual year takes (`year`),
//! and how many short-lived clusters a minute has room for (`seeds`).

mod seeds;
mod year;

use self::year::Frequency;
use crate::{machine, measurement};

/// Measures and prints a table in Markdown; words of the command line select rows.
///
/// # Errors
///
/// A cluster does not start or does not do its work.
pub fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_selected = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    println!("{}\n", machine::describe());
    println!("{}", measurement::HEAD);
    for nodes in [0, 1] {
        for frequency in [Frequency::Weekly, Frequency::Daily] {
            if is_selected(&format!("{} year of {nodes} nodes", frequency.name())) {
                println!("{}", year::measure(frequency, nodes)?);
            }
        }
    }
    if is_selected("seeds") {
        println!("{}", seeds::measure()?);
    }
    Ok(())
}

/// A number from an environment variable.
fn number(variable: &str, default: u64) -> anyhow::Result<u64> {
    match std::env::var(variable) {
        Ok(text) => Ok(text.parse()?),
        Err(_) => Ok(default),
    }
}

/// A runtime of one thread whose clock passes only while every task waits.
fn virtual_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()
}
