//! Files that change under a value.

use super::*;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

/// Replaces a file in one step.
fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// The sum of the numbers in these files, and how often it was made.
fn sum_of(files: &[&Path]) -> (Reloaded<u32>, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let sum = move |contents: &[String], _: Option<&u32>| {
        count.fetch_add(1, Ordering::Relaxed);
        let sum = contents.iter().map(|text| text.trim().parse::<u32>()).sum::<Result<u32, _>>();
        sum.map_err(|error| UnusableFiles::new(error.to_string()))
    };
    (Reloaded::new(files.iter().map(|file| file.to_path_buf()).collect(), sum).unwrap(), made)
}

fn page(reloaded: &Reloaded<u32>) -> String {
    let mut text = String::new();
    reloaded.render_metrics("authentication", &mut Page::new(&mut text));
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

#[test]
fn replaced_files_are_read_once_and_bad_ones_leave_the_last_value() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    write(&a, "1");
    write(&b, "2");
    let (reloaded, made) = sum_of(&[&a, &b]);
    let made = || made.load(Ordering::Relaxed);
    assert_eq!((*reloaded.get(), *reloaded.get(), made()), (3, 3, 1));
    write(&b, "5");
    assert_eq!((*reloaded.get(), *reloaded.get(), made()), (6, 6, 2));
    write(&a, "no number");
    assert_eq!((*reloaded.get(), *reloaded.get(), made()), (6, 6, 3));
    std::fs::remove_file(&a).unwrap();
    assert_eq!(*reloaded.get(), 6);
    write(&a, "7");
    assert_eq!(*reloaded.get(), 12);
}

#[test]
fn equal_contents_are_no_change_unless_others_were_refused_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    write(&file, "1");
    let (reloaded, made) = sum_of(&[&file]);
    write(&file, "1");
    assert_eq!((*reloaded.get(), made.load(Ordering::Relaxed)), (1, 1));
    write(&file, "x");
    assert_eq!((*reloaded.get(), made.load(Ordering::Relaxed)), (1, 2));
    write(&file, "1");
    assert_eq!((*reloaded.get(), made.load(Ordering::Relaxed)), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn files_are_looked_at_no_more_often_than_the_interval_allows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    write(&file, "1");
    let reloaded = sum_of(&[&file]).0.at_most_every(Duration::from_secs(1));
    write(&file, "2");
    assert_eq!(*reloaded.get(), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(*reloaded.get(), 2);
    write(&file, "3");
    assert_eq!(*reloaded.get(), 2);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(*reloaded.get(), 3);
}

#[tokio::test]
async fn a_task_is_woken_by_the_use_that_notices_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    write(&file, "1");
    let reloaded = sum_of(&[&file]).0;
    let first = reloaded.get();
    write(&file, "2");
    let noticed = async {
        tokio::task::yield_now().await;
        assert_eq!(*reloaded.get(), 2);
    };
    let (second, ()) = tokio::join!(reloaded.changed_since(&first), noticed);
    assert_eq!((*second, *reloaded.changed_since(&first).await), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn reloads_are_counted_by_their_results_with_the_time_of_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    write(&file, "1");
    let reloaded = sum_of(&[&file]).0.timed(Clock::simulated());
    let info = |text: &str| {
        let hash = digest(&[text.to_owned()]).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("apiserver_authentication_config_controller_last_config_info{{hash=\"sha256:{hash}\"}} 1\n")
    };
    assert_eq!(page(&reloaded), info("1"));
    write(&file, "22");
    reloaded.get();
    tokio::time::advance(Duration::from_millis(1500)).await;
    write(&file, "bad");
    let prefix = "apiserver_authentication_config_controller_automatic_reload";
    let counted = info("22");
    let counted = format!(
        "{prefix}s_total{{status=\"failure\"}} 1\n{prefix}s_total{{status=\"success\"}} 1\n\
         {prefix}_last_timestamp_seconds{{status=\"failure\"}} 1767225601.5\n\
         {prefix}_last_timestamp_seconds{{status=\"success\"}} 1767225600\n{counted}"
    );
    assert_eq!(page(&reloaded), counted, "the page itself looks at the file");
    write(&file, "333");
    assert_eq!(*reloaded.get(), 333);
    assert!(page(&reloaded).ends_with(&info("333")));
    assert_eq!(page(&Reloaded::fixed(1)), "");
}
