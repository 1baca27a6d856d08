//! Base environment of all Kubernetes expressions: the language with the libraries of cel-go and Kubernetes,
//! without variables.

use super::row::Row;
use super::{authorizer, cidr, format, ip, quantity, semver, url};
use kstore_cel::{Env, EnvBuilder, Library, Type};
use std::sync::LazyLock;

/// Libraries of cel-go; `cel.bind` is not among them.
const LIBRARIES: [Library; 7] = [
    Library::Optional,
    Library::TwoVariables,
    Library::Strings,
    Library::Lists,
    Library::Aggregates,
    Library::Sets,
    Library::Regex,
];

/// The base environment, created once. During an upgrade Kubernetes enables more libraries for stored
/// expressions than for new ones; the supported versions enable all of them for both.
pub(crate) fn environment() -> &'static Env {
    static BASE: LazyLock<Env> = LazyLock::new(|| {
        let builder = LIBRARIES.into_iter().fold(Env::builder(), EnvBuilder::library);
        let rows = [
            authorizer::overloads(),
            cidr::overloads(),
            format::overloads(),
            ip::overloads(),
            quantity::overloads(),
            semver::overloads(),
            url::overloads(),
        ];
        let builder = rows.into_iter().flatten().fold(builder, declare);
        let named = [ip::TYPE, cidr::TYPE].map(|name| (name, Type::opaque(name)));
        let builder = named.into_iter().fold(builder, |builder, (name, ty)| builder.type_name(name, ty));
        format::equality(builder).build()
    });
    &BASE
}

fn declare(builder: EnvBuilder, (name, overload): Row) -> EnvBuilder {
    builder.function(name, overload)
}
