//! Selectors of clients, parsed within the bounds that all front ends share.
//!
//! Each object of a list and each change of a watched kind is compared with every value of a selector, so their number is
//! bounded like their bytes.

use kstore_api::resource::Resource;
use kstore_api::selector::{field, label};
use kstore_api::status::Status;
use kstore_storage::limits;

/// The selectors of one request, which may be several.
#[derive(Debug, Default)]
pub struct SelectorBudget {
    bytes: usize,
    requirements: usize,
}

impl SelectorBudget {
    /// Parses a label and a field selector for objects of a kind.
    ///
    /// # Errors
    /// 400 if a selector is malformed, or names a field that the kind does not have; 400 if the selectors of the request
    /// have together more than [`limits::SELECTOR_BYTES`] or [`limits::SELECTOR_REQUIREMENTS`].
    pub fn parse(
        &mut self,
        resource: &Resource,
        labels: &str,
        fields: &str,
    ) -> Result<(label::Selector, field::Selector), Status> {
        self.bytes += labels.len() + fields.len();
        within("bytes", self.bytes, limits::SELECTOR_BYTES)?;
        let labels = label::Selector::parse(labels).map_err(|e| Status::bad_request(e.to_string()))?;
        let fields = field::Selector::parse(fields).and_then(|selector| selector.check(resource));
        let fields = fields.map_err(|e| Status::bad_request(e.to_string()))?;
        self.requirements += requirements(&labels, &fields);
        within("requirements", self.requirements, limits::SELECTOR_REQUIREMENTS)?;
        Ok((labels, fields))
    }
}

/// The number of values that an object is compared with.
pub(crate) fn requirements(labels: &label::Selector, fields: &field::Selector) -> usize {
    let values = labels.requirements().iter().map(|requirement| match &requirement.test {
        label::Test::In(values) | label::Test::NotIn(values) => values.len().max(1),
        _ => 1,
    });
    values.sum::<usize>() + fields.terms().len()
}

/// The number of requirements in the texts of selectors, at least approximately, without parsing them.
pub fn estimate<'t>(texts: impl IntoIterator<Item = &'t str>) -> u64 {
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    texts.map(|text| 1 + text.matches(',').count() as u64).sum()
}

fn within(what: &str, found: usize, most: usize) -> Result<(), Status> {
    if found <= most {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the selectors of a request have at most {most} {what}: these have {found}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;

    #[test]
    fn selectors_are_bounded_by_bytes_and_by_requirements_of_all_kinds() {
        let pods = kind::lookup("", "v1", "pods").unwrap();
        let code = |labels: &str, fields: &str| {
            SelectorBudget::default().parse(pods, labels, fields).map_or_else(|status| status.code, |_| 200)
        };
        let most = limits::SELECTOR_REQUIREMENTS;
        let labels = |count: usize| (0..count).map(|n| format!("l{n}")).collect::<Vec<_>>().join(",");
        let values = |count: usize| format!("a in ({})", labels(count));
        let fields = |count: usize| vec!["status.phase!=x"; count].join(",");
        for make in [&labels as &dyn Fn(usize) -> String, &values] {
            assert_eq!((code(&make(most), ""), code(&make(most + 1), "")), (200, 400));
        }
        assert_eq!((code("", &fields(most)), code("a", &fields(most))), (200, 400));
        let long = |bytes: usize| format!("a={}", "x".repeat(bytes - 2));
        assert_eq!(code(&long(limits::SELECTOR_BYTES + 1), ""), 400);
        assert_eq!(code("", &format!("status.phase={}", "x".repeat(limits::SELECTOR_BYTES))), 400);
        let mut shared = SelectorBudget::default();
        assert!(
            shared.parse(pods, &labels(most / 2), "").is_ok()
                && shared.parse(pods, &labels(most / 2), "").is_ok()
        );
        assert!(shared.parse(pods, "one", "").is_err(), "the selectors of a request count together");
    }

    #[test]
    fn the_number_of_requirements_is_estimated_from_the_text() {
        assert_eq!(estimate(["", ""]), 0);
        assert_eq!(estimate(["a=b,c in (d,e)", "spec.nodeName=n"]), 4);
    }
}
