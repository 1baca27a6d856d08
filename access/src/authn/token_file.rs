//! Static bearer tokens from a file in the format of kube-apiserver's `--token-auth-file`: one line of CSV
//! per token, with its user, uid and groups. Read once; the caller reads the file.

use kstore_nondet::HashMap;
use kstore_registry::user::UserInfo;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// Static tokens and their users. `Debug` shows no token.
#[derive(Default)]
pub struct TokenFile {
    /// Keyed by digest, so that the time of a look-up reveals nothing about tokens.
    users: HashMap<[u8; 32], Arc<UserInfo>>,
}

/// A malformed line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// The line has fewer than three columns.
    #[error("line {0}: expected token,user,uid and optionally \"group1,group2\"")]
    Columns(usize),
    /// A quote does not end, or is inside a field.
    #[error("line {0}: misplaced quote")]
    Quote(usize),
}

impl TokenFile {
    /// Parses CSV. If lines have the same token, the last one counts; lines without a token are skipped.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::default();
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() {
                continue;
            }
            let fields = fields(line).ok_or(TokenFileError::Quote(number))?;
            let [token, name, uid, more @ ..] = &fields[..] else {
                return Err(TokenFileError::Columns(number));
            };
            if token.is_empty() {
                tracing::warn!(line = number, "a line of the token file has no token");
                continue;
            }
            let groups = more.first().map(String::as_str).unwrap_or_default();
            let mut user = UserInfo::new(name, groups.split(',').filter(|group| !group.is_empty()));
            user.uid.clone_from(uid);
            users.insert(Sha256::digest(token.as_bytes()).into(), Arc::new(user));
        }
        Ok(Self { users })
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Option<Arc<UserInfo>> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.users.get(&digest).cloned()
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").field("tokens", &self.users.len()).finish()
    }
}

/// The fields of a line of CSV: separated by commas, quoted if they contain commas. `None` if a quote is
/// misplaced.
fn fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let trimmed = rest.trim_start();
        let (field, after) = match trimmed.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"')?;
                (quoted[..end].to_owned(), quoted[end + 1..].trim_start())
            }
            None => {
                let end = trimmed.find(',').unwrap_or(trimmed.len());
                (trimmed[..end].trim_end().to_owned(), &trimmed[end..])
            }
        };
        if field.contains('"') {
            return None;
        }
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(fields),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_registry::user::AUTHENTICATED;

    #[test]
    fn a_line_has_token_user_uid_and_groups() {
        let file =
            TokenFile::parse("t1,ann,7,\"dev,system:masters\"\n\nt2, bob , 8\n,nobody,9\nt2,bert,8,ops\n")
                .unwrap();
        let ann = file.user("t1").unwrap();
        assert_eq!((ann.username.as_str(), ann.uid.as_str()), ("ann", "7"));
        assert_eq!(ann.groups, ["dev", "system:masters", AUTHENTICATED]);
        let bert = file.user("t2").unwrap();
        assert_eq!(
            (bert.username.as_str(), &bert.groups[..]),
            ("bert", &["ops".to_owned(), AUTHENTICATED.to_owned()][..])
        );
        assert_eq!((file.user(""), file.user("t")), (None, None));
    }

    #[test]
    fn errors_name_the_malformed_line() {
        let error = |text: &str| TokenFile::parse(text).unwrap_err();
        assert_eq!(error("a,b,c\nt,user"), TokenFileError::Columns(2));
        assert_eq!(error("a,b,c,\"d"), TokenFileError::Quote(1));
        assert_eq!(error("a,b,c\"d"), TokenFileError::Quote(1));
    }
}
