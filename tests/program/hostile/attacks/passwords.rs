//! Wrong passwords, whose checks cost much processor time and memory by design.

use super::observer;
use super::target::{Target, Writer};
use super::{Attack, Scale};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use kstore_tests::wait::PATIENCE;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Connections that try passwords: more than checks may wait.
const CONNECTIONS: usize = 100;

/// The pause of a client that was refused for a moment, and between requests with a checked password.
const PAUSE: Duration = Duration::from_millis(250);

/// Guesses of passwords without end. Users with certificates, tokens, or passwords that were checked a moment ago are not concerned; a
/// password that must be checked waits for its turn.
pub(super) const FLOOD: Attack =
    Attack::new("wrong passwords", 256, flood).with_passwords(&[("ann", "secret"), ("bob", "hidden")]);

/// Writes the file of users. Returns its path.
pub(super) fn file(program: &str, dir: &Path, users: &[(&str, &str)]) -> String {
    let lines = users.iter().map(|(user, password)| {
        let mut command = Command::new(program);
        command.args(["basic-auth", user]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut made = command.spawn().unwrap();
        writeln!(made.stdin.take().unwrap(), "{password}").unwrap();
        String::from_utf8(made.wait_with_output().unwrap().stdout).unwrap()
    });
    let path = dir.join("users");
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A request with credentials, for what everybody may read who is authenticated. Returns the code, 0 without an answer, and the bytes
/// sent.
async fn ask(target: &Target, user: &str, password: &str) -> (u16, usize) {
    let credentials = BASE64_STANDARD.encode(format!("{user}:{password}"));
    let request = format!(
        "GET /api HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\nAuthorization: Basic {credentials}\r\n\r\n"
    );
    let https = target.admin.without_certificate();
    let answer = timeout(PATIENCE, observer::send(&https, &request)).await.unwrap_or_default();
    (answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0), request.len())
}

fn flood(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        assert_eq!(ask(target, "ann", "secret").await.0, 200);
        target.begin(Writer::Tenant).await;
        let end = Instant::now() + scale.time();
        let guess = |number: usize| async move {
            let (mut guesses, mut sent) = (0, 0);
            loop {
                guesses += 1;
                let user = if number.is_multiple_of(2) { "ann".to_owned() } else { format!("user{guesses}") };
                let password = format!("guess {number} {guesses}");
                let Ok((code, bytes)) = timeout_at(end, ask(target, &user, &password)).await else {
                    return sent;
                };
                assert!([401, 429, 0].contains(&code), "{code}");
                sent += bytes;
                if code == 429 {
                    sleep(PAUSE).await;
                }
            }
        };
        let remembered = async {
            while Instant::now() < end {
                assert_eq!(ask(target, "ann", "secret").await.0, 200, "the password was checked before");
                sleep(PAUSE).await;
            }
        };
        let first = async {
            let began = Instant::now();
            loop {
                match ask(target, "bob", "hidden").await.0 {
                    200 => return println!("a password was checked after {:?}", began.elapsed()),
                    code => assert!([429, 0].contains(&code) && began.elapsed() < PATIENCE, "{code}"),
                }
                sleep(PAUSE).await;
            }
        };
        let (sent, (), ()) = tokio::join!(join_all((0..CONNECTIONS).map(guess)), remembered, first);
        sent.into_iter().sum()
    }
    .boxed_local()
}
