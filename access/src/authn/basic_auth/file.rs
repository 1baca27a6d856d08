//! [`BasicAuthFile`]: the file of users and hashes of their passwords, one line `user:hash:uid:group1,group2`
//! each. The uid and the groups may be absent, so that a file of `htpasswd -B` is one. The caller reads the
//! file.

use super::credentials::{is_password, is_user};
use super::hash::{HashError, PasswordHash};
use kstore_nondet::{HashMap, Rng};
use kstore_registry::user::UserInfo;
use kstore_storage::limits::{BASIC_AUTH_PASSWORD_BYTES, BASIC_AUTH_USER_BYTES};
use std::fmt;
use std::sync::Arc;

/// A keyed digest.
pub(super) type Digest = [u8; 32];

/// Users with the hashes of their passwords. `Debug` shows no hash.
#[derive(Default)]
pub(super) struct BasicAuthFile {
    entries: Vec<Entry>,
    by_user: HashMap<String, usize>,
}

struct Entry {
    user: Arc<UserInfo>,
    hash: PasswordHash,
}

/// A malformed line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BasicAuthFileError {
    /// The line has no hash, or no usable user name.
    #[error("line {0}: expected user:hash, and optionally :uid and :group1,group2")]
    Columns(usize),
    /// The hash cannot be used.
    #[error("line {0}: {1}")]
    Hash(usize, HashError),
    /// Another line has the same user.
    #[error("line {0}: the user of line {1} again")]
    Repeated(usize, usize),
}

impl BasicAuthFile {
    /// Parses a file. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The first malformed line.
    pub(super) fn parse(text: &str) -> Result<Self, BasicAuthFileError> {
        let (mut file, mut lines) = (Self::default(), Vec::new());
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = line.splitn(4, ':');
            let (Some(name), Some(hash)) = (fields.next().filter(|name| is_user(name)), fields.next()) else {
                return Err(BasicAuthFileError::Columns(number));
            };
            let (uid, groups) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let hash = PasswordHash::parse(hash.trim_end());
            let hash = hash.map_err(|error| BasicAuthFileError::Hash(number, error))?;
            let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
            let user = UserInfo { uid: uid.trim().to_owned(), ..UserInfo::new(name, groups) };
            if let Some(known) = file.by_user.insert(name.to_owned(), lines.len()) {
                return Err(BasicAuthFileError::Repeated(number, lines[known]));
            }
            file.entries.push(Entry { user: Arc::new(user), hash });
            lines.push(number);
        }
        Ok(file)
    }

    /// The user with this name and password. Takes long by design.
    ///
    /// For a name that is not in the file, the password is verified against the hash of another user, which
    /// `choice` (a secret digest of the name) selects: the time tells neither whether a user exists, nor
    /// which kind of hash a name has.
    pub(super) fn verify(&self, name: &str, password: &[u8], choice: Digest) -> Option<Arc<UserInfo>> {
        let known = self.by_user.get(name).copied();
        let other = u64::from_le_bytes(std::array::from_fn(|at| choice[at]));
        let other = other.checked_rem(self.entries.len() as u64)?;
        let entry = &self.entries[known.unwrap_or(other as usize)];
        let is_right = entry.hash.verify(password);
        (is_right && known.is_some()).then(|| entry.user.clone())
    }
}

impl fmt::Debug for BasicAuthFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuthFile").field("users", &self.entries.len()).finish()
    }
}

/// The content of a new line of the file.
#[derive(Clone, Copy)]
pub struct BasicAuthLine<'l> {
    /// The user name.
    pub user: &'l str,
    /// The password, which is hashed.
    pub password: &'l str,
    /// The uid; may be empty.
    pub uid: &'l str,
    /// The groups.
    pub groups: &'l [String],
}

/// Why a line cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BasicAuthLineError {
    /// The user name has characters that a header or the file cannot have, or the wrong length.
    #[error(
        "the user name must have 1 to {BASIC_AUTH_USER_BYTES} bytes, none of them a colon or a control character, \
             and must not begin with #"
    )]
    User,
    /// The password has characters that a header cannot have, or the wrong length.
    #[error("the password must have 1 to {BASIC_AUTH_PASSWORD_BYTES} bytes and no control characters")]
    Password,
    /// The uid has a colon or a control character.
    #[error("the uid {0:?} has a colon or a control character")]
    Uid(String),
    /// A group is empty, or has a comma or a control character.
    #[error("the group {0:?} is empty, or has a comma or a control character")]
    Group(String),
}

impl BasicAuthLine<'_> {
    /// The line, with a new salt and without a line break.
    ///
    /// # Errors
    /// A part that the file cannot have.
    pub fn render(&self, rng: &Rng) -> Result<String, BasicAuthLineError> {
        let has = |text: &str, separator: char| text.contains(|c: char| c == separator || c.is_control());
        if !is_user(self.user) || self.user.starts_with('#') || self.user.trim().is_empty() {
            return Err(BasicAuthLineError::User);
        }
        if !is_password(self.password) {
            return Err(BasicAuthLineError::Password);
        }
        if has(self.uid, ':') {
            return Err(BasicAuthLineError::Uid(self.uid.to_owned()));
        }
        if let Some(wrong) = self.groups.iter().find(|group| group.trim().is_empty() || has(group, ',')) {
            return Err(BasicAuthLineError::Group(wrong.clone()));
        }
        let mut salt = [0; 16];
        rng.fill_secret(&mut salt);
        let hash = PasswordHash::argon2id(self.password.as_bytes(), &salt);
        let groups = self.groups.join(",");
        let rest = match (self.uid.is_empty(), groups.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!(":{}", self.uid),
            (_, false) => format!(":{}:{groups}", self.uid),
        };
        Ok(format!("{}:{hash}{rest}", self.user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_registry::user::AUTHENTICATED;

    /// As `htpasswd -B` writes it.
    const SECRET: &str = "$2y$04$YWFhYWFhYWFhYWFhYWFhYODkyBowlv6AWaUt3poX7CSG5lQrEg7mG";

    #[test]
    fn a_line_has_user_hash_uid_and_groups() {
        let line = |user, uid, groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            BasicAuthLine { user, password: "secret", uid, groups: &groups }.render(&Rng::seeded(1)).unwrap()
        };
        let (ann, bob) = (line("ann", "7", &["dev", "system:masters"]), line("bob smith", "", &[]));
        let text = format!("# users\n{ann}\r\n\n{bob}\n{}\n", line("eve", "", &["ops"]));
        let file = BasicAuthFile::parse(&text).unwrap();
        let user = |name: &str| file.verify(name, b"secret", [0; 32]);
        let found = user("ann").unwrap();
        assert_eq!((found.username.as_str(), found.uid.as_str()), ("ann", "7"));
        assert_eq!(found.groups, ["dev", "system:masters", AUTHENTICATED]);
        let found = user("bob smith").unwrap();
        assert_eq!((found.uid.as_str(), &found.groups[..]), ("", &[AUTHENTICATED.to_owned()][..]));
        assert_eq!(user("eve").unwrap().groups, ["ops", AUTHENTICATED]);
        assert_eq!(file.verify("ann", b"Secret", [0; 32]), None);
        for choice in 0..9 {
            assert_eq!(file.verify("joe", b"secret", [choice; 32]), None, "another user's password");
        }
        assert_eq!(format!("{file:?}"), "BasicAuthFile { users: 3 }");
        assert_eq!(BasicAuthFile::parse("").unwrap().verify("ann", b"secret", [0; 32]), None);
    }

    #[test]
    fn errors_name_the_malformed_line_and_no_secret() {
        let error = |text: &str| BasicAuthFile::parse(text).unwrap_err();
        let good = format!("ann:{SECRET}");
        assert_eq!(error(&format!("{good}\nbob")), BasicAuthFileError::Columns(2));
        assert_eq!(error(&format!("\n:{SECRET}")), BasicAuthFileError::Columns(2));
        assert_eq!(error(&format!("{good}\n#\n{good}")), BasicAuthFileError::Repeated(3, 1));
        let plain = error(&format!("{good}\nbob:geheim"));
        assert!(matches!(plain, BasicAuthFileError::Hash(2, _)), "{plain}");
        assert!(!plain.to_string().contains("geheim"), "{plain}");
    }

    #[test]
    fn lines_that_could_not_be_read_back_are_refused() {
        let groups = ["dev".to_owned()];
        let good = BasicAuthLine { user: "ann", password: "secret", uid: "7", groups: &groups };
        let refused = |line: BasicAuthLine<'_>| line.render(&Rng::seeded(1)).unwrap_err();
        for user in ["", "a:b", "#a", " ", "a\nb"] {
            assert_eq!(refused(BasicAuthLine { user, ..good }), BasicAuthLineError::User, "{user:?}");
        }
        for password in ["", "a\nb", "a\0b"] {
            assert_eq!(refused(BasicAuthLine { password, ..good }), BasicAuthLineError::Password);
        }
        assert_eq!(refused(BasicAuthLine { uid: "a:b", ..good }), BasicAuthLineError::Uid("a:b".into()));
        for group in ["", "a,b", "a\nb"] {
            let groups = [group.to_owned()];
            assert_eq!(
                refused(BasicAuthLine { groups: &groups, ..good }),
                BasicAuthLineError::Group(group.into())
            );
        }
        let again = good.render(&Rng::seeded(2)).unwrap();
        assert_ne!(good.render(&Rng::seeded(1)).unwrap(), again, "each line has its own salt");
    }
}
