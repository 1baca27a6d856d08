//! Reads of a namespace's past: the history of a namespace begins with its creation and ends with its deletion.
//!
//! A RoleBinding gives its subjects rights in the namespace that has it, and not in a former namespace of the same name, which belonged
//! to other users. Lists, watches and reads at an older revision would show the former one's Secrets. The server answers them as if that
//! history were compacted, unless the caller may read the kind in all namespaces. The same holds where there is no namespace of the name
//! any more: rights in it come by name, from a webhook, a file, or a RoleBinding that was left. kube-apiserver has no such rule; its
//! history is five minutes long, kstore's may be all of it.

use super::Pipeline;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::cache::{Filter, ReadBound, WatchStart};
use kstore_registry::registry::ContinueToken;
use kstore_registry::request::{Action, ListAt, ListOptions, Target};
use kstore_registry::user::UserInfo;
use std::sync::OnceLock;

/// The revision whose state, or whose changes since, a request reads; 0 or less if it reads the newest state.
pub(super) fn revision_of(action: &Action, bound: Option<&dyn ReadBound>) -> i64 {
    match action {
        Action::Get(options) => options.exact,
        Action::List(options) | Action::DeleteCollection(options, ..) => list_revision(options),
        Action::Watch(options) => watch_revision(options.start, bound),
        Action::Create(..) | Action::Update(..) | Action::Patch(..) | Action::Delete(..) => 0,
    }
}

fn list_revision(options: &ListOptions) -> i64 {
    match (&options.at, options.continue_token.as_str()) {
        (ListAt::Exact(revision), "") => *revision,
        (ListAt::Newest | ListAt::NotOlderThan(_), "") => 0,
        // A malformed token is refused where it is used.
        (_, token) => ContinueToken::decode(token).map_or(0, |token| token.revision()),
    }
}

/// The revision after which a watch begins; 0 if it begins with the newest state. In a view of the past it begins with a state of the past.
fn watch_revision(start: WatchStart, bound: Option<&dyn ReadBound>) -> i64 {
    match start {
        WatchStart::State => bound.filter(|bound| bound.is_final()).and_then(ReadBound::state).unwrap_or(0),
        WatchStart::After(revision) | WatchStart::Resume(revision) => revision,
    }
}

fn namespaces() -> &'static Resource {
    static ROW: OnceLock<&'static Resource> = OnceLock::new();
    ROW.get_or_init(|| kind::lookup("", "v1", "namespaces").expect("namespaces are in the table of kinds"))
}

impl Pipeline {
    /// Checks that a caller who may do `verb` in the target's namespace may do it at `revision`, too; 0 or less is the newest.
    ///
    /// # Errors
    /// 410 if the namespace was created later or may have been deleted since, and the caller has no right in all namespaces. The caller
    /// lists again.
    pub async fn check_past(
        &self,
        user: &UserInfo,
        verb: &str,
        target: &Target,
        name: &str,
        revision: i64,
    ) -> Result<(), Status> {
        let own = target.resource.is("", "namespaces");
        let namespace = if own { name } else { &target.namespace };
        if namespace.is_empty() || revision <= 0 {
            return Ok(());
        }
        let key = namespaces().storage_key("", namespace);
        let former = match self.cache().get(namespaces(), &key) {
            Some(entry) if entry.created <= revision => return Ok(()),
            Some(entry) => format!("was created at {}", entry.created),
            // No namespace changed since, so none was deleted: there is no past to show, and a watch of a name without a namespace goes on.
            None if self.cache().snapshot(&Filter::all(namespaces())).changed <= revision => return Ok(()),
            None => "does not exist any more".to_owned(),
        };
        let everywhere = Target { namespace: String::new(), name: String::new(), ..target.clone() };
        let name = if own { "" } else { name };
        self.check(user, verb, &everywhere, name).await.map_err(|_| {
            Status::expired(format!(
                "The resourceVersion for the provided list is too old: namespace {namespace} {former}."
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_reads_at_its_revision() {
        let resource = kind::lookup("", "v1", "secrets").unwrap();
        let filter = kstore_registry::cache::Filter::all(resource);
        let of = |at, token: &str| {
            let options = ListOptions { filter: filter.clone(), limit: 1, continue_token: token.into(), at };
            revision_of(&Action::List(options), None)
        };
        let token = ContinueToken::after("a", 7).encode();
        assert_eq!(of(ListAt::Newest, &token), 7);
        assert_eq!(of(ListAt::Newest, ""), 0);
        assert_eq!(of(ListAt::NotOlderThan(5), ""), 0);
        assert_eq!(of(ListAt::Exact(5), ""), 5);
        assert_eq!(of(ListAt::Newest, "nonsense"), 0);
    }
}
