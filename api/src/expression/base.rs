//! The base environment of all expressions of Kubernetes: the language with cel-go's libraries and those of Kubernetes, without variables.

use std::sync::LazyLock;

use kstore_cel::{Env, EnvBuilder, Library, Type};

use super::row::Row;
use super::{authorizer, cidr, format, ip, quantity, semver, url};

/// The libraries of the language; `cel.bind` is not among them.
const LIBRARIES: [Library; 7] = [
    Library::Optional,
    Library::TwoVariables,
    Library::Strings,
    Library::Lists,
    Library::Aggregates,
    Library::Sets,
    Library::Regex,
];

/// The environment, made once. Kubernetes gives expressions that are stored already more libraries than new ones while an upgrade
/// goes on; the versions served here have had all of them for long enough.
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
        // Field names in backquotes are read by the grammar of this version.
        format::equality(builder).escaped_fields(true).build()
    });
    &BASE
}

fn declare(builder: EnvBuilder, (name, overload): Row) -> EnvBuilder {
    builder.function(name, overload)
}
