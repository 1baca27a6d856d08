//! Masking of Secrets: their values are replaced by texts that say nothing about them. Pure, but for randomness, which is an argument.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_api::object;
use kstore_nondet::Rng;
use kstore_ui::secret_copies::is_copy;
use serde_json::Value;
use std::collections::BTreeMap;

/// Values of Secrets that are public.
const PUBLIC: [&str; 2] = ["ca.crt", "tls.crt"];
/// Values whose form the API server checks, and what they become.
const CHECKED: [(&str, &str); 2] = [(".dockerconfigjson", r#"{"auths":{}}"#), (".dockercfg", "{}")];
/// Characters of a mask after `masked-`.
const MASK_LENGTH: usize = 10;

/// The masks of an import. Equal values get one mask; a mask is random, so that it says nothing else about its value.
#[derive(Debug)]
pub(super) struct Masks {
    rng: Rng,
    /// The mask of each value, both in base64.
    known: BTreeMap<String, String>,
}

impl Masks {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, known: BTreeMap::new() }
    }

    /// Masks the values of a Secret, and removes the annotations that repeat them.
    pub(super) fn mask(&mut self, secret: &mut Value) {
        let annotations = secret.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !is_copy(name));
        }
        for (name, value) in secret.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten() {
            if PUBLIC.contains(&name.as_str()) || object::text(value).is_empty() {
                continue;
            }
            *value = match CHECKED.iter().find(|(checked, _)| checked == name) {
                Some((_, empty)) => STANDARD.encode(empty).into(),
                None => self.of(object::text(value)).into(),
            };
        }
    }

    fn of(&mut self, value: &str) -> String {
        let rng = &self.rng;
        let mask = || STANDARD.encode(format!("masked-{}", rng.name_suffix(MASK_LENGTH)));
        self.known.entry(value.to_owned()).or_insert_with(mask).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_masked_equal_ones_alike_and_public_ones_stay() {
        let mut masks = Masks::new(Rng::seeded(1));
        let encoded = |text: &str| STANDARD.encode(text);
        let secret = json!({"metadata": {"annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{}}", "kapp.k14s.io/original": "{\"data\":{}}", "team": "a"}},
            "data": {"password": encoded("correct-horse"), "same": encoded("correct-horse"), "other": encoded("x"),
                "empty": "", "tls.crt": encoded("certificate"), ".dockerconfigjson": encoded("{\"auths\":{\"r\":{}}}")}});
        let mut masked = secret.clone();
        masks.mask(&mut masked);
        assert_eq!(masked["metadata"]["annotations"], json!({"team": "a"}));
        let data = |name: &str| {
            String::from_utf8(STANDARD.decode(masked["data"][name].as_str().unwrap()).unwrap()).unwrap()
        };
        assert_eq!(data("password"), data("same"));
        assert_ne!(data("password"), data("other"));
        assert!(data("password").starts_with("masked-") && data("password").len() == 17);
        assert_eq!((data("empty"), data("tls.crt")), (String::new(), "certificate".into()));
        assert_eq!(data(".dockerconfigjson"), r#"{"auths":{}}"#);
        let mut again = secret;
        masks.mask(&mut again);
        assert_eq!(again, masked, "an older version of the Secret shows that nothing changed");
        let mut without = json!({"metadata": {"name": "a"}});
        masks.mask(&mut without);
        assert_eq!(without["metadata"], json!({"name": "a"}));
    }
}
