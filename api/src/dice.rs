//! Random decisions from bytes, and random objects made with them.

use crate::schema::{self, Elem, Field, ListType, Shape, Type};
use serde_json::{Map, Value, json};

/// Source of decisions; zeros after the last byte.
pub(crate) struct Dice<'a>(pub(crate) &'a [u8]);

impl Dice<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Random JSON with short names and values.
    pub(crate) fn json(&mut self, depth: usize) -> Value {
        let kinds = if depth == 0 { 4 } else { 7 };
        match self.below(kinds) {
            0 => json!(self.below(3)),
            1 => json!(self.pick(&["", "a", "b"])),
            2 => Value::Null,
            3 => json!(self.one_in(2)),
            4 => (0..self.below(4)).map(|_| self.json(depth - 1)).collect(),
            _ => self.map(depth),
        }
    }

    /// Random JSON object.
    pub(crate) fn map(&mut self, depth: usize) -> Value {
        let member = |dice: &mut Self| {
            (dice.pick(&["a", "b", "c/d", "~"]).to_owned(), dice.json(depth.saturating_sub(1)))
        };
        Value::Object((0..self.below(4)).map(|_| member(self)).collect())
    }

    /// Random object of a type, as large as the bytes allow.
    pub(crate) fn object(&mut self, ty: &'static Type, depth: usize) -> Value {
        let mut map = Map::new();
        for _ in 0..self.below(5) {
            let Some(field) = ty.fields.get(self.below(ty.fields.len())) else { break };
            if field.number != 0 && field.name != "managedFields" {
                map.insert(field.name.to_owned(), self.member(field, depth));
            }
        }
        Value::Object(map)
    }

    /// Random value of a field. Elements of keyed lists have unique keys.
    pub(crate) fn member(&mut self, field: &'static Field, depth: usize) -> Value {
        let count = self.below(4);
        match field.shape {
            Shape::One => self.elem(field.elem, depth),
            Shape::Map => {
                let entry =
                    |dice: &mut Self| (dice.pick(&["a", "b", "c"]).to_owned(), dice.elem(field.elem, depth));
                Value::Object((0..count).map(|_| entry(self)).collect())
            }
            Shape::List => {
                let mut items: Vec<Value> = (0..count).map(|_| self.elem(field.elem, depth)).collect();
                let keyed = field.merge_key.is_some() || field.list_type == Some(ListType::Map);
                if let (true, Some(ty)) = (keyed, field.struct_type()) {
                    for (at, item) in items.iter_mut().enumerate() {
                        for key in field.list_keys.iter().copied().chain(field.merge_key) {
                            item[key] = self.key(ty, key, at);
                        }
                    }
                } else if field.patch.merge || field.list_type == Some(ListType::Set) {
                    items.sort_by_key(Value::to_string);
                    items.dedup();
                }
                Value::Array(items)
            }
        }
    }

    /// Random object of a type that shares much with the given one.
    pub(crate) fn variation(&mut self, of: &Value, ty: &'static Type, depth: usize) -> Value {
        let mut out = self.object(ty, depth.min(2));
        for (name, value) in of.as_object().into_iter().flatten() {
            let Some(field) = ty.field(name) else { continue };
            let changed = match (field.struct_type(), value) {
                _ if self.one_in(3) || depth == 0 => continue,
                (Some(nested), Value::Object(_)) if field.shape == Shape::One => {
                    self.variation(value, nested, depth - 1)
                }
                (Some(nested), Value::Array(items)) => {
                    let mut kept: Vec<Value> = Vec::new();
                    for item in items {
                        if self.one_in(4) {
                            continue;
                        }
                        let mut changed = self.variation(item, nested, depth - 1);
                        for key in field.list_keys.iter().copied().chain(field.merge_key) {
                            changed[key] = item[key].clone();
                        }
                        kept.push(changed);
                    }
                    if self.one_in(2) {
                        kept.reverse();
                    }
                    kept.into()
                }
                _ => self.member(field, depth - 1),
            };
            out[name] = changed;
        }
        out
    }

    /// Random value of a key; `at` makes it unique among the elements.
    fn key(&mut self, ty: &'static Type, key: &str, at: usize) -> Value {
        match ty.field(key).map(|f| f.elem) {
            Some(Elem::Int32 | Elem::Int64) => json!(at * 3 + self.below(3)),
            _ => json!(format!("{}{at}", self.pick(&["k", "l"]))),
        }
    }

    fn elem(&mut self, elem: Elem, depth: usize) -> Value {
        match elem {
            Elem::String => json!(self.pick(&["", "a", "b", "ü/\"b"])),
            Elem::Bool => json!(self.one_in(2)),
            Elem::Int32 => json!(self.below(5) as i32 - 2),
            Elem::Int64 => json!(self.pick(&[0, -1, i64::MAX, i64::MIN])),
            Elem::Float64 => json!(self.pick(&[0.0, -1.5, 1e300])),
            Elem::Bytes => json!(self.pick(&["", "AP8=", "eA=="])),
            Elem::Time => json!(self.pick(&["2024-02-29T23:59:59Z", "1969-12-31T23:59:59Z"])),
            Elem::MicroTime => {
                json!(self.pick(&["2024-02-29T23:59:59.000001Z", "1969-12-31T23:59:59.999999Z"]))
            }
            Elem::Quantity => json!(self.pick(&["0", "1500m", "3Gi", "2e3"])),
            Elem::IntOrString => [json!(0), json!(-7), json!("25%")][self.below(3)].clone(),
            Elem::Raw | Elem::FieldsV1 => json!({"f:spec": {"k": [1, null]}}),
            Elem::Json => [json!("x"), json!({"a": 1}), json!([true])][self.below(3)].clone(),
            Elem::Items => json!(["get"]),
            Elem::SchemaOrList => json!([{"type": "string"}]),
            Elem::SchemaOrBool => json!(self.one_in(2)),
            Elem::SchemaOrStrings => json!(["a"]),
            Elem::Struct(_) if depth == 0 => json!({}),
            Elem::Struct(id) => self.object(id.get(), depth - 1),
        }
    }
}

/// A random kind; together these kinds have every way in which lists merge.
pub(crate) fn kind(dice: &mut Dice<'_>) -> &'static Type {
    let kinds = [
        ("", "Pod"),
        ("apps", "Deployment"),
        ("", "Service"),
        ("", "Node"),
        ("", "ServiceAccount"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ];
    let (group, kind) = dice.pick(&kinds);
    schema::of(group, "v1", kind).expect("the table has these kinds")
}
