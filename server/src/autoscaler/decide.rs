//! What the calls of an autoscaler change in a group, and which it refuses with the texts of a cloud provider. Pure.

use std::collections::BTreeSet;

/// A NodeGroup, as far as an autoscaler is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Group {
    pub(super) name: String,
    /// Instances that it has or makes.
    pub(super) size: u32,
    pub(super) least: u32,
    pub(super) most: u32,
    /// The uids of Nodes that it gives up first.
    pub(super) removing: BTreeSet<String>,
}

/// A Node of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) provider_id: String,
}

/// The nodes that an autoscaler names: provider id and name.
pub(super) type Named<'n> = (&'n str, &'n str);

/// The next size of a group, and the uids of the Nodes that go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resize {
    pub(super) size: u32,
    pub(super) removing: BTreeSet<String>,
}

/// Why a call changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The group's size forbids it.
    Precondition(String),
    /// The call is about a node of another group.
    Foreign(String),
}

/// The provider id of an instance that has no Node yet, by its number among them.
pub(super) fn creating_id(group: &str, number: u32) -> String {
    format!("{}{number}", creating_prefix(group))
}

/// The beginning of the provider ids of a group's instances without a Node.
fn creating_prefix(group: &str) -> String {
    format!("kstore://{group}/creating-")
}

/// More instances.
///
/// # Errors
/// `delta` is not positive, or the group would be larger than its most.
pub(super) fn increase(group: &Group, delta: i32) -> Result<Resize, Refusal> {
    let Some(delta) = u32::try_from(delta).ok().filter(|delta| *delta > 0) else {
        return Err(Refusal::Precondition("size increase must be positive".to_owned()));
    };
    let wanted = group.size.saturating_add(delta);
    if wanted > group.most {
        return Err(Refusal::Precondition(format!(
            "size increase too large, desired: {wanted} max: {}",
            group.most
        )));
    }
    Ok(Resize { size: wanted, removing: group.removing.clone() })
}

/// Fewer instances, of those that have no Node yet.
///
/// # Errors
/// `delta` is not negative, or Nodes would have to go.
pub(super) fn decrease(group: &Group, members: &[Member], delta: i32) -> Result<Resize, Refusal> {
    if delta >= 0 {
        return Err(Refusal::Precondition("size decrease must be negative".to_owned()));
    }
    let existing = members.iter().filter(|member| !group.removing.contains(&member.uid)).count();
    let wanted = group.size.checked_sub(delta.unsigned_abs()).filter(|size| *size as usize >= existing);
    let size = wanted.ok_or_else(|| {
        let text = format!(
            "attempt to delete existing nodes, targetSize: {} delta: {delta} existingNodes: {existing}",
            group.size
        );
        Refusal::Precondition(text)
    })?;
    if size < group.least {
        return Err(below_minimum(group, size));
    }
    Ok(Resize { size, removing: group.removing.clone() })
}

/// The end of these nodes. A node that already goes is not counted again.
///
/// # Errors
/// A node is not of the group, or the group would be smaller than its least. Then none goes.
pub(super) fn delete(group: &Group, members: &[Member], nodes: &[Named<'_>]) -> Result<Resize, Refusal> {
    let is_present = |uid: &&String| members.iter().any(|member| member.uid == **uid);
    let mut removing: BTreeSet<String> = group.removing.iter().filter(is_present).cloned().collect();
    let mut count = 0;
    for (provider_id, name) in nodes {
        let is_named = |member: &&Member| {
            member.name == *name || (!provider_id.is_empty() && member.provider_id == *provider_id)
        };
        match members.iter().find(is_named) {
            Some(member) => count += u32::from(removing.insert(member.uid.clone())),
            None if provider_id.starts_with(&creating_prefix(&group.name)) => count += 1,
            None => {
                return Err(Refusal::Foreign(format!("node {name:?} is not of node group {:?}", group.name)));
            }
        }
    }
    match group.size.checked_sub(count) {
        Some(size) if size >= group.least => Ok(Resize { size, removing }),
        smaller => Err(below_minimum(group, smaller.unwrap_or(0))),
    }
}

fn below_minimum(group: &Group, size: u32) -> Refusal {
    Refusal::Precondition(format!(
        "node group size would be below minimum size, desired: {size} min: {}",
        group.least
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(size: u32) -> Group {
        Group { name: "web".to_owned(), size, least: 2, most: 6, removing: BTreeSet::new() }
    }

    fn members(count: usize) -> Vec<Member> {
        let member = |index| Member {
            name: format!("web-{index}"),
            uid: format!("u{index}"),
            provider_id: format!("kstore://web/web-{index}"),
        };
        (0..count).map(member).collect()
    }

    fn text(refused: Result<Resize, Refusal>) -> String {
        match refused.unwrap_err() {
            Refusal::Precondition(text) | Refusal::Foreign(text) => text,
        }
    }

    #[test]
    fn sizes_stay_between_the_bounds_and_a_decrease_ends_no_node() {
        assert_eq!(increase(&group(3), 3).unwrap().size, 6);
        assert_eq!(text(increase(&group(3), 4)), "size increase too large, desired: 7 max: 6");
        assert_eq!(text(increase(&group(3), 0)), "size increase must be positive");
        assert_eq!(decrease(&group(5), &members(3), -2).unwrap().size, 3);
        assert!(text(decrease(&group(5), &members(3), -3)).starts_with("attempt to delete existing nodes"));
        assert_eq!(text(decrease(&group(5), &members(3), 1)), "size decrease must be negative");
        assert!(text(decrease(&group(3), &[], -2)).starts_with("node group size would be below minimum"));
    }

    #[test]
    fn nodes_are_ended_by_name_or_provider_id_and_each_once() {
        let ended = delete(&group(5), &members(4), &[("", "web-1"), ("kstore://web/web-2", "x")]).unwrap();
        assert_eq!((ended.size, ended.removing.len()), (3, 2));
        let again = Group { removing: ended.removing, ..group(3) };
        let same = delete(&again, &members(4), &[("", "web-1")]).unwrap();
        assert_eq!((same.size, same.removing.len()), (3, 2), "it goes already");
        let gone = delete(&again, &members(1), &[("", "web-0")]).unwrap();
        assert_eq!((gone.size, gone.removing.len()), (2, 1), "nodes that are gone are forgotten");
        let made = creating_id("web", 0);
        assert_eq!(delete(&group(5), &members(4), &[(made.as_str(), "x")]).unwrap().size, 4);
        assert_eq!(
            text(delete(&group(5), &members(4), &[("", "db-0")])),
            "node \"db-0\" is not of node group \"web\""
        );
        assert!(
            text(delete(&group(2), &members(2), &[("", "web-0")]))
                .contains("below minimum size, desired: 1 min: 2")
        );
    }
}
