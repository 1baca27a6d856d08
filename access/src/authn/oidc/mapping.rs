//! Maps the claims of a token to a user: prefixed claims, or CEL expressions over `claims`, and rules that
//! must hold. Pure.

use kstore_api::expression::plain::Expression;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};

const CLAIMS: &str = "claims";
const USER: &str = "user";
const UNVERIFIED_EMAIL: &str = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";

/// The source of one field of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The value of a claim, with a prefix.
    Claim {
        /// The name of the claim.
        claim: String,
        /// Text that is prepended to the value.
        prefix: String,
    },
    /// A CEL expression over `claims`.
    Expression(String),
}

/// A validation rule for claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimRule {
    /// A claim must have a certain value.
    Required {
        /// The name of the claim.
        claim: String,
        /// The required value.
        value: String,
    },
    /// A CEL expression over `claims` that must be true.
    Expression {
        /// The expression.
        expression: String,
        /// The error message if it is false.
        message: String,
    },
}

/// A validation rule for the mapped user: a CEL expression over `user` that must be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRule {
    /// The expression.
    pub expression: String,
    /// The error message if it is false.
    pub message: String,
}

/// The mapping from claims to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingConfig {
    /// The source of the user name.
    pub username: Source,
    /// The source of the groups, if any.
    pub groups: Option<Source>,
    /// The source of the uid: a claim without prefix, or an expression.
    pub uid: Option<Source>,
    /// Extra fields: key and CEL expression.
    pub extra: Vec<(String, String)>,
    /// Rules about claims.
    pub claim_rules: Vec<ClaimRule>,
    /// Rules about the user.
    pub user_rules: Vec<UserRule>,
}

/// An invalid expression of a mapping.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct MappingError {
    /// The configuration field.
    pub field: String,
    /// Why the field is invalid.
    pub reason: String,
}

/// A [`MappingConfig`] with its expressions compiled.
#[derive(Debug)]
pub(super) struct Mapping {
    username: Compiled,
    groups: Option<Compiled>,
    uid: Option<Compiled>,
    extra: Vec<(String, Expression)>,
    claim_rules: Vec<CompiledRule>,
    user_rules: Vec<(Expression, String)>,
}

#[derive(Debug)]
enum Compiled {
    Claim { claim: String, prefix: String },
    Expression(Expression),
}

#[derive(Debug)]
enum CompiledRule {
    Required { claim: String, value: String },
    Expression(Expression, String),
}

impl Mapping {
    pub(super) fn compile(config: &MappingConfig) -> Result<Self, MappingError> {
        let at = |field: &str, reason| MappingError { field: field.to_owned(), reason };
        let source = |field: &str, source: &Source| match source {
            Source::Claim { claim, prefix } => {
                Ok(Compiled::Claim { claim: claim.clone(), prefix: prefix.clone() })
            }
            Source::Expression(text) => {
                Expression::compile(text, &[CLAIMS]).map(Compiled::Expression).map_err(|why| at(field, why))
            }
        };
        let optional = |field: &str, of: &Option<Source>| of.as_ref().map(|of| source(field, of)).transpose();
        let extra = config.extra.iter().map(|(key, text)| {
            let compiled = Expression::compile(text, &[CLAIMS]);
            compiled.map(|compiled| (key.clone(), compiled)).map_err(|why| at("claimMappings.extra", why))
        });
        let claim_rules = config.claim_rules.iter().map(|rule| match rule {
            ClaimRule::Required { claim, value } => {
                Ok(CompiledRule::Required { claim: claim.clone(), value: value.clone() })
            }
            ClaimRule::Expression { expression, message } => Expression::condition(expression, &[CLAIMS])
                .map(|compiled| CompiledRule::Expression(compiled, message.clone()))
                .map_err(|why| at("claimValidationRules", why)),
        });
        let user_rules = config.user_rules.iter().map(|rule| {
            let compiled = Expression::condition(&rule.expression, &[USER]);
            compiled
                .map(|compiled| (compiled, rule.message.clone()))
                .map_err(|why| at("userValidationRules", why))
        });
        let mapping = Self {
            username: source("claimMappings.username", &config.username)?,
            groups: optional("claimMappings.groups", &config.groups)?,
            uid: optional("claimMappings.uid", &config.uid)?,
            extra: extra.collect::<Result<_, _>>()?,
            claim_rules: claim_rules.collect::<Result<_, _>>()?,
            user_rules: user_rules.collect::<Result<_, _>>()?,
        };
        match mapping.trusts_unverified_email() {
            false => Ok(mapping),
            true => Err(at("claimMappings.username.expression", UNVERIFIED_EMAIL.to_owned())),
        }
    }

    /// Whether the user name comes from the claim `email` by an expression, and no expression reads whether the
    /// issuer has verified the address.
    fn trusts_unverified_email(&self) -> bool {
        let Compiled::Expression(username) = &self.username else { return false };
        let rules = self.claim_rules.iter().filter_map(|rule| match rule {
            CompiledRule::Expression(rule, _) => Some(rule),
            CompiledRule::Required { .. } => None,
        });
        let mut expressions = [username].into_iter().chain(self.extra.iter().map(|(_, of)| of)).chain(rules);
        username.selects(CLAIMS, "email") && !expressions.any(|of| of.selects(CLAIMS, "email_verified"))
    }

    /// Maps verified claims to a user.
    ///
    /// # Errors
    /// The violated rule, or the field that the claims do not yield.
    pub(super) fn user(&self, claims: &Value) -> Result<UserInfo, String> {
        for rule in &self.claim_rules {
            rule.check(claims)?;
        }
        let mut user = UserInfo { username: self.username(claims)?, ..UserInfo::default() };
        if user.username.is_empty() {
            return Err("the username is empty".to_owned());
        }
        if let Some(groups) = &self.groups {
            user.groups = texts(groups, claims)?;
        }
        if let Some(uid) = &self.uid {
            user.uid = text(uid, claims)?;
        }
        for (key, expression) in &self.extra {
            let values = strings(&expression.value(&[(CLAIMS, claims)])?, key)?;
            let values: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        let shown =
            json!({"username": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra});
        for (rule, message) in &self.user_rules {
            if !rule.is_true(&[(USER, &shown)])? {
                return Err(rule_failure(message, rule.text()));
            }
        }
        let named = UserInfo::new(std::mem::take(&mut user.username), std::mem::take(&mut user.groups));
        Ok(UserInfo { uid: user.uid, extra: user.extra, ..named })
    }

    fn username(&self, claims: &Value) -> Result<String, String> {
        if let Compiled::Claim { claim, .. } = &self.username
            && claim == "email"
        {
            match claims.get("email_verified") {
                None | Some(Value::Bool(true)) => {}
                Some(Value::Bool(false) | Value::Null) => return Err("email not verified".to_owned()),
                Some(_) => return Err("email_verified is neither true nor false".to_owned()),
            }
        }
        text(&self.username, claims)
    }
}

impl CompiledRule {
    fn check(&self, claims: &Value) -> Result<(), String> {
        match self {
            Self::Required { claim, value } => match claims[claim].as_str() {
                Some(found) if found == value => Ok(()),
                Some(_) => Err(format!("required claim {claim} value does not match")),
                None => Err(format!("required claim {claim} not present in ID token")),
            },
            Self::Expression(rule, message) => match rule.is_true(&[(CLAIMS, claims)])? {
                true => Ok(()),
                false => Err(rule_failure(message, rule.text())),
            },
        }
    }
}

fn rule_failure(message: &str, expression: &str) -> String {
    match message.is_empty() {
        true => format!("validation expression '{expression}' failed"),
        false => format!("validation expression '{expression}' failed: {message}"),
    }
}

fn text(source: &Compiled, claims: &Value) -> Result<String, String> {
    match source {
        Compiled::Claim { claim, prefix } => match claims[claim].as_str() {
            Some(found) => Ok(format!("{prefix}{found}")),
            None => Err(format!("claim {claim} is missing or not a string")),
        },
        Compiled::Expression(expression) => match expression.value(&[(CLAIMS, claims)])? {
            Value::String(text) => Ok(text),
            _ => Err(format!("expression '{}' does not evaluate to a string", expression.text())),
        },
    }
}

/// The group names of a source. A claim may be missing or a single text.
fn texts(source: &Compiled, claims: &Value) -> Result<Vec<String>, String> {
    match source {
        Compiled::Claim { claim, prefix } => {
            let found = strings(&claims[claim], claim)?;
            Ok(found.into_iter().map(|group| format!("{prefix}{group}")).collect())
        }
        Compiled::Expression(expression) => {
            strings(&expression.value(&[(CLAIMS, claims)])?, expression.text())
        }
    }
}

fn strings(value: &Value, what: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{what} is neither a string nor a list of strings");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(one) if one.is_empty() => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(several) => {
            several.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(claim: &str, prefix: &str) -> Source {
        Source::Claim { claim: claim.to_owned(), prefix: prefix.to_owned() }
    }

    fn config(username: Source) -> MappingConfig {
        MappingConfig {
            username,
            groups: None,
            uid: None,
            extra: vec![],
            claim_rules: vec![],
            user_rules: vec![],
        }
    }

    fn user(config: &MappingConfig, claims: &Value) -> Result<UserInfo, String> {
        Mapping::compile(config).unwrap().user(claims)
    }

    #[test]
    fn claims_and_expressions_make_a_user() {
        let claims =
            json!({"sub": "7", "email": "a@b", "roles": ["x", "y"], "one": "z", "tenant": {"id": 3}});
        let plain = MappingConfig { groups: Some(claim("roles", "oidc:")), ..config(claim("sub", "iss#")) };
        let found = user(&plain, &claims).unwrap();
        assert_eq!(
            (found.username.as_str(), &found.groups[..2]),
            ("iss#7", &["oidc:x".to_owned(), "oidc:y".to_owned()][..])
        );
        let one = MappingConfig { groups: Some(claim("one", "")), ..config(claim("sub", "")) };
        assert_eq!(user(&one, &claims).unwrap().groups[0], "z");
        let cel = MappingConfig {
            groups: Some(Source::Expression("claims.roles.filter(r, r != 'x')".to_owned())),
            uid: Some(Source::Expression("string(claims.tenant.id)".to_owned())),
            extra: vec![("example.com/tenant".to_owned(), "string(claims.tenant.id)".to_owned())],
            claim_rules: vec![ClaimRule::Expression {
                expression: "claims.sub == '7'".into(),
                message: String::new(),
            }],
            user_rules: vec![UserRule {
                expression: "!user.username.startsWith('system:')".into(),
                message: "no".into(),
            }],
            ..config(Source::Expression("'u:' + claims.sub".to_owned()))
        };
        let found = user(&cel, &claims).unwrap();
        assert_eq!(
            (found.username.as_str(), found.uid.as_str(), found.groups[0].as_str()),
            ("u:7", "3", "y")
        );
        assert_eq!(found.extra["example.com/tenant"], ["3"]);
        let system = MappingConfig { user_rules: cel.user_rules, ..config(claim("sub", "system:")) };
        assert!(user(&system, &claims).unwrap_err().ends_with("failed: no"));
    }

    #[test]
    fn an_address_is_a_user_name_only_if_it_is_not_known_to_be_unverified() {
        let email = config(claim("email", ""));
        let claims = |verified: Option<bool>| match verified {
            None => json!({"email": "a@b", "sub": "7"}),
            Some(verified) => json!({"email": "a@b", "sub": "7", "email_verified": verified}),
        };
        assert_eq!(user(&email, &claims(None)).unwrap().username, "a@b");
        assert_eq!(user(&email, &claims(Some(true))).unwrap().username, "a@b");
        assert_eq!(user(&email, &claims(Some(false))), Err("email not verified".to_owned()));
        let subject = config(claim("sub", ""));
        assert_eq!(user(&subject, &claims(Some(false))).unwrap().username, "7", "other names do not need it");
    }

    #[test]
    fn expressions_that_use_the_email_must_use_whether_it_is_verified() {
        let expression = |text: &str| config(Source::Expression(text.to_owned()));
        let rule = |expression: &str| ClaimRule::Expression {
            expression: expression.to_owned(),
            message: String::new(),
        };
        let verified = "claims.?email_verified.orValue(true)";
        let with_rule =
            |text: &str, rule: ClaimRule| MappingConfig { claim_rules: vec![rule], ..expression(text) };
        let with_extra = MappingConfig {
            extra: vec![("example.com/verified".to_owned(), "string(claims.email_verified)".to_owned())],
            ..expression("claims.email")
        };
        for (config, is_valid) in [
            (expression("claims.sub"), true),
            (expression("claims.email_"), true),
            (expression("claims.email"), false),
            (expression("'p:' + claims['email']"), false),
            (expression("claims.email_verified ? claims.email : claims.sub"), true),
            (with_rule("claims.email", rule(verified)), true),
            (with_rule("claims.email", rule("claims.sub == '7'")), false),
            (
                with_rule(
                    "claims.email",
                    ClaimRule::Required { claim: "email_verified".to_owned(), value: "true".to_owned() },
                ),
                false,
            ),
            (with_extra, true),
        ] {
            let compiled = Mapping::compile(&config).map(drop).map_err(|error| error.to_string());
            let refused = Err(format!("claimMappings.username.expression: {UNVERIFIED_EMAIL}"));
            assert_eq!(compiled, if is_valid { Ok(()) } else { refused }, "{config:?}");
        }
    }

    #[test]
    fn insufficient_claims_are_refused() {
        let required = |value: &str| MappingConfig {
            claim_rules: vec![ClaimRule::Required { claim: "hd".into(), value: value.into() }],
            ..config(claim("sub", ""))
        };
        for (config, claims, want) in [
            (config(claim("sub", "")), json!({}), "claim sub is missing or not a string"),
            (config(claim("sub", "")), json!({"sub": 1}), "claim sub is missing or not a string"),
            (config(claim("sub", "")), json!({"sub": ""}), "the username is empty"),
            (
                config(claim("email", "")),
                json!({"email": "a", "email_verified": false}),
                "email not verified",
            ),
            (config(claim("email", "")), json!({"email": "a", "email_verified": null}), "email not verified"),
            (
                config(claim("email", "")),
                json!({"email": "a", "email_verified": "yes"}),
                "neither true nor false",
            ),
            (required("a"), json!({"sub": "x"}), "required claim hd not present"),
            (required("a"), json!({"sub": "x", "hd": "b"}), "required claim hd value does not match"),
            (config(Source::Expression("claims.none".into())), json!({}), "no such key"),
            (
                config(Source::Expression("claims.sub".into())),
                json!({"sub": 1}),
                "does not evaluate to a string",
            ),
            (
                MappingConfig { groups: Some(claim("g", "")), ..config(claim("sub", "")) },
                json!({"sub": "x", "g": [1]}),
                "neither a string",
            ),
        ] {
            let refused = user(&config, &claims).unwrap_err();
            assert!(refused.contains(want), "{claims}: {refused}");
        }
        assert!(Mapping::compile(&config(Source::Expression("claims.".into()))).is_err());
    }
}
