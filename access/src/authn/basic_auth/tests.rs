//! Users of a file, and the bounds of what checking their passwords may cost.

use super::*;
use crate::authn::BasicAuthLine;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

fn credentials(user: &str, password: &str) -> BasicCredentials {
    BasicCredentials { user: user.to_owned(), password: password.to_owned() }
}

fn line(nondet: &Nondet, user: &str, password: &str) -> String {
    BasicAuthLine { user, password, uid: "", groups: &[] }.render(&nondet.rng).unwrap() + "\n"
}

fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

async fn code(basic: &BasicAuth, user: &str, password: &str) -> u16 {
    basic.user(credentials(user, password)).await.map_or_else(|status| status.code, |_| 200)
}

fn count(basic: &BasicAuth, result: &'static str) -> u64 {
    basic.results.get(&result).get()
}

#[tokio::test]
async fn a_password_is_checked_once_while_it_is_remembered() {
    let (dir, nondet) = (tempfile::tempdir().unwrap(), Nondet::real());
    let file = dir.path().join("users");
    write(&file, &line(&nondet, "ann", "secret"));
    let basic = BasicAuth::of_file(file, &nondet).unwrap();
    assert_eq!(code(&basic, "ann", "secret").await, 200);
    for _ in 0..3 {
        assert_eq!(code(&basic, "ann", "secret").await, 200);
        assert_eq!(code(&basic, "ann", "Secret").await, 401);
        assert_eq!(code(&basic, "joe", "secret").await, 401);
    }
    let counts = ["success", "cached", "failure", "busy"].map(|result| count(&basic, result));
    assert_eq!(counts, [1, 3, 6, 0], "refusals are not remembered");
    let mut page = String::new();
    basic.render_metrics(&mut Page::new(&mut page));
    assert!(page.contains("kstore_basic_auth_requests_total{result=\"cached\"} 3\n"), "{page}");
    assert!(!format!("{basic:?}").contains("ann"));
}

#[tokio::test(start_paused = true)]
async fn a_remembered_password_is_checked_again_after_its_time() {
    let (dir, nondet) = (tempfile::tempdir().unwrap(), Nondet::simulated(1));
    let file = dir.path().join("users");
    write(&file, &line(&nondet, "ann", "secret"));
    let basic = BasicAuth::of_file(file, &nondet).unwrap();
    for _ in 0..2 {
        assert_eq!(code(&basic, "ann", "secret").await, 200);
        tokio::time::advance(BASIC_AUTH_VERIFIED_TIME).await;
    }
    assert_eq!((count(&basic, "success"), count(&basic, "cached")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_ends_what_was_verified_by_the_former_one() {
    let (dir, nondet) = (tempfile::tempdir().unwrap(), Nondet::simulated(1));
    let file = dir.path().join("users");
    let (ann, bob) = (line(&nondet, "ann", "secret"), line(&nondet, "bob", "geheim"));
    write(&file, &ann);
    let basic = BasicAuth::of_file(file.clone(), &nondet).unwrap();
    assert_eq!(code(&basic, "ann", "secret").await, 200);
    write(&file, &bob);
    assert_eq!(code(&basic, "ann", "secret").await, 200, "the file is not looked at each time");
    tokio::time::advance(ACCESS_FILE_LOOK).await;
    assert_eq!(code(&basic, "ann", "secret").await, 401);
    assert_eq!(code(&basic, "bob", "geheim").await, 200);
    write(&file, "bob:geheim");
    tokio::time::advance(ACCESS_FILE_LOOK).await;
    assert_eq!(code(&basic, "bob", "geheim").await, 200, "a malformed file changes nothing");
    write(&file, &line(&nondet, "bob", "new password"));
    tokio::time::advance(ACCESS_FILE_LOOK).await;
    assert_eq!(code(&basic, "bob", "geheim").await, 401);
    assert_eq!(code(&basic, "bob", "new password").await, 200);
}

#[test]
fn a_malformed_file_ends_the_start_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    write(&file, "# users\nann\n");
    let error = BasicAuth::of_file(file, &Nondet::real()).unwrap_err().to_string();
    assert_eq!(error, "line 2: expected user:hash, and optionally :uid and :group1,group2");
}

#[tokio::test]
async fn a_flood_of_wrong_passwords_is_bounded_and_refuses_what_it_cannot_check() {
    let (dir, nondet) = (tempfile::tempdir().unwrap(), Nondet::real());
    let file = dir.path().join("users");
    write(&file, &line(&nondet, "ann", "secret"));
    let basic = BasicAuth::of_file(file, &nondet).unwrap();
    assert_eq!(code(&basic, "ann", "secret").await, 200);
    // Checks that never end.
    let running = basic.running.clone().acquire_many_owned(BASIC_AUTH_CHECKS as u32).await.unwrap();
    let flood = (0..BASIC_AUTH_WAITING).map(|number| {
        let basic = &basic;
        async move { code(basic, "ann", &format!("guess {number}")).await }
    });
    let flood = futures::future::join_all(flood);
    let others = async {
        tokio::task::yield_now().await;
        assert_eq!(code(&basic, "ann", "one more").await, 429);
        assert_eq!(code(&basic, "ann", "secret").await, 200, "remembered credentials need no check");
        drop(running);
    };
    let (codes, ()) = tokio::join!(flood, others);
    assert_eq!(codes, [401; BASIC_AUTH_WAITING]);
}

#[tokio::test]
async fn an_unknown_user_costs_a_check_like_a_known_one() {
    let (dir, nondet) = (tempfile::tempdir().unwrap(), Nondet::real());
    let file = dir.path().join("users");
    write(&file, &[line(&nondet, "ann", "secret"), line(&nondet, "bob", "geheim")].concat());
    let basic = BasicAuth::of_file(file, &nondet).unwrap();
    let time = async |user: &str| {
        let began = Instant::now();
        assert_eq!(code(&basic, user, "wrong").await, 401);
        began.elapsed()
    };
    // The shortest times count, because a busy machine lengthens others; on such a one more are measured.
    let (mut known, mut unknown) = (Duration::MAX, Duration::MAX);
    for round in 1..=50 {
        known = known.min(time("ann").await);
        unknown = unknown.min(time("joe").await);
        if round >= 5 && unknown > known / 3 {
            return;
        }
    }
    panic!("unknown {unknown:?}, known {known:?}");
}
