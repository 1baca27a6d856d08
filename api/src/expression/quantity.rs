//! The CEL library `kubernetes.quantity`: quantities such as `500m` and `1.5Gi`.

use super::row::{self, Named, Row};
use crate::quantity::{Format, Quantity};
use kstore_cel::{EvalError, Overload, Type, Val};
use std::cmp::Ordering;

impl Named for Quantity {
    const TYPE: &'static str = "kubernetes.Quantity";
}

/// Type of quantities.
pub(super) fn ty() -> Type {
    Type::opaque(Quantity::TYPE)
}

fn parse(text: &str) -> Result<Quantity, EvalError> {
    Quantity::parse(text).map_err(|error| EvalError::other(error.to_string()))
}

/// Functions of the library.
pub(super) fn overloads() -> Vec<Row> {
    let one = |id: &str, result: Type, read: fn(Quantity) -> Result<Val<'static>, EvalError>| {
        Overload::method(id, [ty()], result, move |args| read(*row::opaque::<Quantity>(args, 0)?))
    };
    let compare = |id: &str, result: Type, read: fn(Ordering) -> Val<'static>| {
        Overload::method(id, [ty(), ty()], result, move |args| {
            let (a, b) = (row::opaque::<Quantity>(args, 0)?, row::opaque::<Quantity>(args, 1)?);
            Ok(read(a.cmp(b)))
        })
    };
    let combine = |id: &str, by: Type, combine: fn(Quantity, Quantity) -> Quantity| {
        Overload::method(id, [ty(), by], ty(), move |args| {
            let other = match args.get(1) {
                Some(Val::Int(units)) => Quantity::from_units(*units, Format::DecimalExponent),
                _ => *row::opaque::<Quantity>(args, 1)?,
            };
            Ok(row::value(combine(*row::opaque::<Quantity>(args, 0)?, other)))
        })
    };
    let read = |overload: Overload| overload.cost(row::traversal());
    vec![
        (
            "quantity",
            read(Overload::function("string_to_quantity", [Type::String], ty(), |args| {
                Ok(row::value(parse(row::text(args, 0)?)?))
            })),
        ),
        (
            "isQuantity",
            read(Overload::function("is_quantity_string", [Type::String], Type::Bool, |args| {
                Ok(Val::Bool(Quantity::parse(row::text(args, 0)?).is_ok()))
            })),
        ),
        (
            "sign",
            Overload::function("quantity_sign", [ty()], Type::Int, |args| {
                let own = row::opaque::<Quantity>(args, 0)?;
                Ok(Val::Int(i64::from(!own.is_zero()) * if own.is_negative() { -1 } else { 1 }))
            }),
        ),
        ("isGreaterThan", compare("quantity_is_greater_than", Type::Bool, |order| Val::Bool(order.is_gt()))),
        ("isLessThan", compare("quantity_is_less_than", Type::Bool, |order| Val::Bool(order.is_lt()))),
        ("compareTo", compare("quantity_compare_to", Type::Int, |order| Val::Int(order as i64))),
        ("asApproximateFloat", one("quantity_get_float", Type::Double, |own| Ok(Val::Double(own.as_f64())))),
        (
            "asInteger",
            one("quantity_get_int", Type::Int, |own| match whole(own) {
                Some(units) => Ok(Val::Int(units)),
                None => Err(EvalError::other("cannot convert value to integer")),
            }),
        ),
        ("isInteger", one("quantity_is_integer", Type::Bool, |own| Ok(Val::Bool(whole(own).is_some())))),
        ("add", combine("quantity_add", ty(), Quantity::add)),
        ("add", combine("quantity_add_int", Type::Int, Quantity::add)),
        ("sub", combine("quantity_sub", ty(), Quantity::sub)),
        ("sub", combine("quantity_sub_int", Type::Int, Quantity::sub)),
    ]
}

/// Units of a quantity without a fraction; `None` for others.
fn whole(own: Quantity) -> Option<i64> {
    let units = own.units();
    (Quantity::from_units(units, Format::DecimalSi) == own).then_some(units)
}

#[cfg(test)]
mod tests {
    use crate::expression::tests::check;

    #[test]
    fn quantities_are_parsed_compared_and_added() {
        check(&[
            ("isQuantity('1.3Gi')", "true"),
            ("isQuantity('1.3Gigabytes')", "false"),
            ("quantity('1k') == quantity('1000')", "true"),
            ("quantity('1k').isGreaterThan(quantity('999'))", "true"),
            ("quantity('1k').isLessThan(quantity('999'))", "false"),
            ("quantity('50m').compareTo(quantity('50m'))", "0"),
            ("quantity('1').compareTo(quantity('2'))", "-1"),
            ("sign(quantity('-1'))", "-1"),
            ("sign(quantity('0'))", "0"),
            ("quantity('50k').asInteger()", "50000"),
            ("quantity('50m').isInteger()", "false"),
            ("quantity('50m').asInteger()", "cannot convert value to integer"),
            ("quantity('50m').asApproximateFloat()", "0.05"),
            ("quantity('1').add(quantity('500m')) == quantity('1500m')", "true"),
            ("quantity('1').add(1).sub(quantity('1k')).sub(-1000).asInteger()", "2"),
        ]);
    }
}
