//! The path of a walk: a chain of borrowed steps on the stack. Text is made only where a path is kept.

/// A place in an object.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// A member, by its name.
    Name(&'a str),
    /// An element of a list, in its wire spelling.
    Element(&'a str),
}

impl<'a> Path<'a> {
    /// The object itself.
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Name("") };

    pub(super) const fn member<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    pub(super) const fn element<'b>(&'b self, spelling: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Element(spelling) }
    }

    /// The steps in their wire spelling, from the root down.
    pub(super) fn spelled(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut at = self;
        while let Some(parent) = at.parent {
            out.push(match at.step {
                Step::Name(name) => format!("f:{name}"),
                Step::Element(spelling) => spelling.to_owned(),
            });
            at = parent;
        }
        out.reverse();
        out
    }
}
