//! [`Attributes`]: parsed `#[kstore(…)]` attributes, each value with its source position. It does not check
//! whether values fit each other.

use crate::check;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::{Attribute, Error, LitBool, LitInt, LitStr, Path, Result, Token, Type};

/// Keys of the attribute, with an example of each.
const KEYS: [(&str, &str); 17] = [
    ("group", "group = \"stable.example.com\""),
    ("version", "version = \"v1\""),
    ("kind", "kind = \"CronTab\""),
    ("plural", "plural = \"crontabs\""),
    ("singular", "singular = \"crontab\""),
    ("object", "object = \"CronTabObject\""),
    ("namespaced", "namespaced"),
    ("shortname", "shortname = \"ct\""),
    ("category", "category = \"all\""),
    ("status", "status = \"CronTabStatus\""),
    ("scale", "scale(spec = \".spec.replicas\", status = \".status.replicas\")"),
    ("printcolumn", "printcolumn(name = \"Schedule\", type = \"string\", json_path = \".spec.schedule\")"),
    ("selectable", "selectable = \".spec.color\""),
    ("validation", "validation(rule = \"self.spec.min <= self.spec.max\", message = \"min is above max\")"),
    ("deprecated", "deprecated, or deprecated = \"use v2\""),
    ("derive", "derive = \"PartialEq\""),
    ("crate", "crate = \"kstore_client\""),
];

/// Parsed keys of the attribute.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) group: Option<LitStr>,
    pub(crate) version: Option<LitStr>,
    pub(crate) kind: Option<LitStr>,
    pub(crate) plural: Option<LitStr>,
    pub(crate) singular: Option<LitStr>,
    pub(crate) object: Option<LitStr>,
    pub(crate) namespaced: bool,
    pub(crate) shortnames: Vec<LitStr>,
    pub(crate) categories: Vec<LitStr>,
    pub(crate) status: Option<Type>,
    pub(crate) scale: Option<Scale>,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<LitStr>,
    pub(crate) rules: Vec<Rule>,
    /// Text of the deprecation warning; empty for the server's default text.
    pub(crate) deprecated: Option<String>,
    pub(crate) derives: Vec<Path>,
    /// Path of the crate `kstore_client`.
    pub(crate) client: Option<Path>,
}

/// Value of `scale(…)`.
pub(crate) struct Scale {
    pub(crate) spec: LitStr,
    pub(crate) status: LitStr,
    pub(crate) selector: Option<LitStr>,
}

/// Value of `printcolumn(…)`.
pub(crate) struct Column {
    pub(crate) name: LitStr,
    pub(crate) value_type: LitStr,
    pub(crate) json_path: LitStr,
    pub(crate) description: Option<LitStr>,
    pub(crate) priority: Option<LitInt>,
    pub(crate) format: Option<LitStr>,
}

/// Value of `validation(…)`.
pub(crate) struct Rule {
    pub(crate) rule: LitStr,
    pub(crate) message: Option<LitStr>,
    pub(crate) message_expression: Option<LitStr>,
    pub(crate) reason: Option<LitStr>,
    pub(crate) field_path: Option<LitStr>,
    pub(crate) optional_old_self: Option<bool>,
}

impl Attributes {
    /// Parses all `#[kstore(…)]` attributes in `attributes`.
    ///
    /// # Errors
    /// A key or value is unknown, duplicate or malformed; the error has its position.
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut out = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("kstore")) {
            attribute.parse_nested_meta(|meta| out.read(&meta))?;
        }
        Ok(out)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match key(meta).as_str() {
            "group" => once(&mut self.group, meta, check::group),
            "version" => once(&mut self.version, meta, check::label),
            "kind" => once(&mut self.kind, meta, check::kind),
            "plural" => once(&mut self.plural, meta, check::label),
            "singular" => once(&mut self.singular, meta, check::label),
            "object" => once(&mut self.object, meta, check::identifier),
            "namespaced" => self.read_namespaced(meta),
            "shortname" => push(&mut self.shortnames, checked(meta, check::label)?),
            "category" => push(&mut self.categories, checked(meta, check::label)?),
            "status" => self.read_status(meta),
            "scale" => self.read_scale(meta),
            "printcolumn" => push(&mut self.columns, Column::read(meta)?),
            "selectable" => push(&mut self.selectable, checked(meta, check::json_path)?),
            "validation" => push(&mut self.rules, Rule::read(meta)?),
            "deprecated" => self.read_deprecated(meta),
            "derive" => push(&mut self.derives, value(meta)?.parse()?),
            "crate" => self.read_crate(meta),
            _ => Err(unknown(meta, "kstore", &KEYS)),
        }
    }

    fn read_namespaced(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.input.peek(Token![=]) {
            return Err(meta.error("`namespaced` takes no value; leave it out for a cluster-scoped kind"));
        }
        self.namespaced = true;
        Ok(())
    }

    fn read_status(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        refuse_second(self.status.is_some(), meta)?;
        let text = value(meta)?;
        let wanted =
            |_| Error::new(text.span(), "`status` is the name of a type: status = \"CronTabStatus\"");
        self.status = Some(text.parse().map_err(wanted)?);
        Ok(())
    }

    fn read_scale(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        refuse_second(self.scale.is_some(), meta)?;
        self.scale = Some(Scale::read(meta)?);
        Ok(())
    }

    fn read_deprecated(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        refuse_second(self.deprecated.is_some(), meta)?;
        let has_text = meta.input.peek(Token![=]);
        self.deprecated = Some(if has_text { checked(meta, check::warning)?.value() } else { String::new() });
        Ok(())
    }

    fn read_crate(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        refuse_second(self.client.is_some(), meta)?;
        self.client = Some(value(meta)?.parse_with(Path::parse_mod_style)?);
        Ok(())
    }
}

impl Scale {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        const KEYS: [(&str, &str); 3] = [
            ("spec", "spec = \".spec.replicas\""),
            ("status", "status = \".status.replicas\""),
            ("selector", "selector = \".status.selector\""),
        ];
        let (mut spec, mut status, mut selector) = (None, None, None);
        nested(meta, |meta| match key(meta).as_str() {
            "spec" => once(&mut spec, meta, check::spec_path),
            "status" => once(&mut status, meta, check::status_path),
            "selector" => once(&mut selector, meta, check::part_path),
            _ => Err(unknown(meta, "scale", &KEYS)),
        })?;
        Ok(Self {
            spec: required(spec, meta, &KEYS[0])?,
            status: required(status, meta, &KEYS[1])?,
            selector,
        })
    }
}

impl Column {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        const KEYS: [(&str, &str); 6] = [
            ("name", "name = \"Schedule\""),
            ("type", "type = \"string\""),
            ("json_path", "json_path = \".spec.schedule\""),
            ("description", "description = \"When it runs\""),
            ("priority", "priority = 1"),
            ("format", "format = \"date-time\""),
        ];
        let (mut name, mut value_type, mut json_path) = (None, None, None);
        let (mut description, mut priority, mut format) = (None, None, None);
        nested(meta, |meta| match key(meta).as_str() {
            "name" => once(&mut name, meta, check::not_empty),
            "type" => once(&mut value_type, meta, check::column_type),
            "json_path" => once(&mut json_path, meta, check::json_path),
            "description" => once(&mut description, meta, check::not_empty),
            "priority" => {
                refuse_second(priority.is_some(), meta)?;
                let number: LitInt = meta.value()?.parse()?;
                number.base10_parse::<i32>()?;
                priority = Some(number);
                Ok(())
            }
            "format" => once(&mut format, meta, check::column_format),
            _ => Err(unknown(meta, "printcolumn", &KEYS)),
        })?;
        Ok(Self {
            name: required(name, meta, &KEYS[0])?,
            value_type: required(value_type, meta, &KEYS[1])?,
            json_path: required(json_path, meta, &KEYS[2])?,
            description,
            priority,
            format,
        })
    }
}

impl Rule {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        const KEYS: [(&str, &str); 6] = [
            ("rule", "rule = \"self.spec.min <= self.spec.max\""),
            ("message", "message = \"min is above max\""),
            ("message_expression", "message_expression = \"'min is above ' + string(self.spec.max)\""),
            ("reason", "reason = \"FieldValueForbidden\""),
            ("field_path", "field_path = \".spec.min\""),
            ("optional_old_self", "optional_old_self = true"),
        ];
        let (mut rule, mut message, mut message_expression) = (None, None, None);
        let (mut reason, mut field_path, mut optional_old_self) = (None, None, None);
        nested(meta, |meta| match key(meta).as_str() {
            "rule" => once(&mut rule, meta, check::not_empty),
            "message" => once(&mut message, meta, check::message),
            "message_expression" => once(&mut message_expression, meta, check::not_empty),
            "reason" => once(&mut reason, meta, check::reason),
            "field_path" => once(&mut field_path, meta, check::field_path),
            "optional_old_self" => {
                refuse_second(optional_old_self.is_some(), meta)?;
                optional_old_self = Some(meta.value()?.parse::<LitBool>()?.value);
                Ok(())
            }
            _ => Err(unknown(meta, "validation", &KEYS)),
        })?;
        let rule = required(rule, meta, &KEYS[0])?;
        Ok(Self { rule, message, message_expression, reason, field_path, optional_old_self })
    }
}

/// Appends the value of a repeatable key.
fn push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    list.push(value);
    Ok(())
}

/// The name of the key.
fn key(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

/// Parses the keys in the parentheses of a key.
fn nested(
    meta: &ParseNestedMeta<'_>,
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    if !meta.input.peek(syn::token::Paren) {
        let name = key(meta);
        let form = KEYS.iter().find(|(known, _)| *known == name).map_or("", |(_, form)| form);
        return Err(meta.error(format!("`{name}` takes values in parentheses: {form}")));
    }
    meta.parse_nested_meta(|meta| read(&meta))
}

/// Parses the text after `=`.
fn value(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let name = key(meta);
    let wanted = |input: ParseStream<'_>| input.error(format!("`{name}` takes a string: {name} = \"…\""));
    if !meta.input.peek(Token![=]) {
        return Err(wanted(meta.input));
    }
    let input = meta.value()?;
    if !input.peek(LitStr) {
        return Err(wanted(input));
    }
    input.parse()
}

/// Parses and checks the text after `=`.
fn checked(meta: &ParseNestedMeta<'_>, check: fn(&str) -> check::CheckResult) -> Result<LitStr> {
    let text = value(meta)?;
    check(&text.value()).map_err(|wrong| Error::new(text.span(), wrong))?;
    Ok(text)
}

fn once(
    attribute: &mut Option<LitStr>,
    meta: &ParseNestedMeta<'_>,
    check: fn(&str) -> check::CheckResult,
) -> Result<()> {
    refuse_second(attribute.is_some(), meta)?;
    *attribute = Some(checked(meta, check)?);
    Ok(())
}

fn refuse_second(is_there: bool, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match is_there {
        true => Err(meta.error(format!("`{}` is given twice: remove one", key(meta)))),
        false => Ok(()),
    }
}

fn required(
    found: Option<LitStr>,
    meta: &ParseNestedMeta<'_>,
    (name, form): &(&str, &str),
) -> Result<LitStr> {
    found.ok_or_else(|| meta.error(format!("`{}` needs `{name}`: {form}", key(meta))))
}

/// The error for an unknown key: it suggests the most similar key, or lists all keys.
fn unknown(meta: &ParseNestedMeta<'_>, of: &str, keys: &[(&str, &str)]) -> Error {
    const SIMILAR: usize = 3;
    let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_else(|| "this".to_owned());
    let plain = name.replace('_', "").to_lowercase();
    let distance = |known: &str| strsim::levenshtein(&plain, &known.replace('_', ""));
    let nearest =
        keys.iter().min_by_key(|(known, _)| distance(known)).filter(|(known, _)| distance(known) < SIMILAR);
    match nearest {
        Some((_, form)) => meta.error(format!("`{of}` has no key `{name}`; did you mean {form}")),
        None => {
            let names: Vec<_> = keys.iter().map(|(known, _)| *known).collect();
            meta.error(format!("`{of}` has no key `{name}`; its keys are {}", names.join(", ")))
        }
    }
}
