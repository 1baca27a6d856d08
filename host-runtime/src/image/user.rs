//! The user that an image names for its processes. Pure.

/// The user and the group of `text` (`USER`, `USER:GROUP`, by names or numbers, or nothing for root) by an image's files `passwd` and
/// `group`; `None` if there is no such name.
pub(super) fn find(text: &str, passwd: &str, group: &str) -> Option<(u32, u32)> {
    let (user, own_group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group).filter(|group| !group.is_empty())),
        None => (text, None),
    };
    // Name, password, user, group.
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(':').collect();
        let [name, _, user, group, ..] = words.as_slice() else { return None };
        Some(((*name).to_owned(), user.parse::<u32>().ok()?, group.parse::<u32>().ok()?))
    };
    let number = user.parse::<u32>().ok();
    let known = passwd.lines().filter_map(entry).find(|(name, id, _)| name == user || number == Some(*id));
    let (user, first_group) = match (known, number) {
        (Some((_, id, group)), _) => (id, group),
        (None, Some(id)) => (id, 0),
        (None, None) if user.is_empty() => (0, 0),
        (None, None) => return None,
    };
    let Some(wanted) = own_group else { return Some((user, first_group)) };
    // Name, password, group.
    let named = group.lines().find_map(|line| {
        let words: Vec<&str> = line.split(':').collect();
        let [name, _, id, ..] = words.as_slice() else { return None };
        if *name == wanted { id.parse::<u32>().ok() } else { None }
    });
    Some((user, named.or_else(|| wanted.parse().ok())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:50:::\nbad line\n";
        let group = "root:x:0:\nstaff:x:50:\nweb:x:33:app\n";
        for (text, expected) in [
            ("", Some((0, 0))),
            ("app", Some((1000, 50))),
            ("1000", Some((1000, 50))),
            ("65532", Some((65532, 0))),
            ("app:web", Some((1000, 33))),
            ("65532:7", Some((65532, 7))),
            ("app:", Some((1000, 50))),
            ("nobody", None),
            ("app:nobody", None),
        ] {
            assert_eq!(find(text, passwd, group), expected, "{text:?}");
        }
    }
}
