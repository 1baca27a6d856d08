//! [`expand`]: the macro's pure function from the type of a `spec` to the generated code.

use crate::attributes::{Attributes, Column, Rule, Scale};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Ident, LitStr, Path, Result};

/// Most selectable fields of a kind.
const SELECTABLE_MAX: usize = 8;

/// Generates the object type of the kind, its Kubernetes traits, and its definition.
///
/// # Errors
/// The type or an attribute value is invalid; the error has its position.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    check_type(input)?;
    let attributes = Attributes::parse(&input.attrs)?;
    let names = Names::new(input, &attributes)?;
    check_paths(&attributes)?;
    let Names { client, object, .. } = &names;
    let (spec, visibility) = (&input.ident, &input.vis);
    let object_type = object_type(input, &attributes, &names);
    let serde = serde(spec, &attributes, &names);
    let resource = resource(&attributes, &names);
    let definition = definition(&attributes, &names);
    let status_schema = match &attributes.status {
        Some(status) => quote!(::core::option::Option::Some(#client::crd::schema::structural::<#status>()
            .map_err(|error| error.of_field("status"))?)),
        None => quote!(::core::option::Option::None),
    };
    let new_status = attributes.status.as_ref().map(|_| quote!(status: ::core::option::Option::None,));
    Ok(quote! {
        #object_type
        impl #object {
            /// A new object with this name and spec.
            #visibility fn new(name: &str, spec: #spec) -> Self {
                Self {
                    metadata: ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: ::core::option::Option::Some(::std::borrow::ToOwned::to_owned(name)),
                        ..::core::default::Default::default()
                    },
                    spec,
                    #new_status
                }
            }
        }
        #serde
        #resource
        impl #client::crd::CustomResource for #object {
            const DEFINITION: #client::crd::Definition = #definition;
            fn try_crd() -> ::core::result::Result<
                ::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
                #client::crd::schema::SchemaError,
            > {
                let spec = #client::crd::schema::structural::<#spec>().map_err(|error| error.of_field("spec"))?;
                let status = #status_schema;
                ::core::result::Result::Ok(
                    <Self as #client::crd::CustomResource>::DEFINITION.with_schemas(spec, status),
                )
            }
        }
    })
}

/// Names of the kind in its definition and in the generated code, from attributes or derived from the kind.
struct Names {
    client: Path,
    object: Ident,
    group: String,
    version: String,
    kind: String,
    plural: String,
    singular: String,
}

impl Names {
    fn new(input: &DeriveInput, attributes: &Attributes) -> Result<Self> {
        let missing = |form: &str| {
            Error::new_spanned(&input.ident, format!("add #[kstore({form})] to `{}`", input.ident))
        };
        let text =
            |value: &Option<LitStr>, form| value.as_ref().map(LitStr::value).ok_or_else(|| missing(form));
        let group = text(&attributes.group, "group = \"stable.example.com\"")?;
        let version = text(&attributes.version, "version = \"v1\"")?;
        let kind = text(&attributes.kind, "kind = \"CronTab\"")?;
        let name = attributes.object.as_ref().or(attributes.kind.as_ref());
        let object = match name {
            Some(name) => Ident::new(&name.value(), name.span()),
            None => format_ident!("{kind}"),
        };
        if object == input.ident {
            let text = format!(
                "`{object}` is the type of the spec; the macro makes the type of the object by this name: call the \
                 spec `{object}Spec`, or add object = \"{object}Object\""
            );
            return Err(Error::new(object.span(), text));
        }
        let singular = attributes.singular.as_ref().map_or_else(|| kind.to_lowercase(), LitStr::value);
        let plural =
            attributes.plural.as_ref().map_or_else(|| plural_of(&kind.to_lowercase()), LitStr::value);
        let client = attributes.client.clone().unwrap_or_else(|| syn::parse_quote!(::kstore_client));
        Ok(Self { client, object, group, version, kind, plural, singular })
    }
}

/// The plural by the rules of English spelling, without exceptions.
fn plural_of(word: &str) -> String {
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    match word.strip_suffix('y') {
        Some(stem) if !ends(&["ay", "ey", "iy", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends(&["s", "x", "z", "ch", "sh"]) => format!("{word}es"),
        _ => format!("{word}s"),
    }
}

fn check_type(input: &DeriveInput) -> Result<()> {
    if let Data::Union(data) = &input.data {
        return Err(Error::new(data.union_token.span, "a spec is a struct or an enum"));
    }
    if !input.generics.params.is_empty() {
        let text = "a spec has no generic parameters: one type is one kind";
        return Err(Error::new_spanned(&input.generics, text));
    }
    Ok(())
}

/// Refuses paths into a missing status, and more selectable fields than an API server accepts.
fn check_paths(attributes: &Attributes) -> Result<()> {
    if let Some(path) = attributes.selectable.get(SELECTABLE_MAX) {
        return Err(Error::new(
            path.span(),
            format!("an API server takes {SELECTABLE_MAX} selectable fields at most"),
        ));
    }
    let scale = attributes.scale.iter().flat_map(|scale| [Some(&scale.status), scale.selector.as_ref()]);
    let columns = attributes.columns.iter().map(|column| &column.json_path);
    let paths = scale.flatten().chain(columns).chain(&attributes.selectable);
    let is_of_status = |path: &&LitStr| {
        path.value().strip_prefix(".status").is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    match paths.into_iter().find(is_of_status) {
        Some(path) if attributes.status.is_none() => Err(Error::new(
            path.span(),
            "the kind has no status: add status = \"…\" with the type of its status",
        )),
        _ => Ok(()),
    }
}

fn object_type(input: &DeriveInput, attributes: &Attributes, names: &Names) -> TokenStream {
    let (visibility, spec, object) = (&input.vis, &input.ident, &names.object);
    let docs = input.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let docs: Vec<_> = docs.collect();
    let text = format!("An object of the kind `{}`.", names.kind);
    let docs = if docs.is_empty() { quote!(#[doc = #text]) } else { quote!(#(#docs)*) };
    let derives = &attributes.derives;
    let status = attributes.status.as_ref().map(|status| {
        quote! {
            /// Observed state, if any was reported.
            #visibility status: ::core::option::Option<#status>,
        }
    });
    quote! {
        #docs
        #[derive(Clone, Debug, #(#derives),*)]
        #visibility struct #object {
            /// Name, labels and other metadata.
            #visibility metadata: ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// Desired state.
            #visibility spec: #spec,
            #status
        }
    }
}

fn serde(spec: &Ident, attributes: &Attributes, names: &Names) -> TokenStream {
    let Names { client, object, .. } = names;
    let (status_type, written, read) = match &attributes.status {
        Some(status) => (quote!(#status), quote!(self.status.as_ref()), quote!(status: parts.status,)),
        None => (quote!(::serde::de::IgnoredAny), quote!(::core::option::Option::<&()>::None), quote!()),
    };
    quote! {
        impl ::serde::Serialize for #object {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                #client::serialize_object::<Self, _, _, _>(&self.metadata, &self.spec, #written, serializer)
            }
        }
        impl<'de> ::serde::Deserialize<'de> for #object {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                let parts: #client::ObjectParts<#spec, #status_type> =
                    ::serde::Deserialize::deserialize(deserializer)?;
                ::core::result::Result::Ok(Self { metadata: parts.metadata, spec: parts.spec, #read })
            }
        }
    }
}

fn resource(attributes: &Attributes, names: &Names) -> TokenStream {
    let Names { object, group, version, kind, plural, .. } = names;
    let api_version = format!("{group}/{version}");
    let scope = match attributes.namespaced {
        true => quote!(::k8s_openapi::NamespaceResourceScope),
        false => quote!(::k8s_openapi::ClusterResourceScope),
    };
    let metadata = quote!(::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta);
    quote! {
        impl ::k8s_openapi::Resource for #object {
            const API_VERSION: &'static str = #api_version;
            const GROUP: &'static str = #group;
            const KIND: &'static str = #kind;
            const VERSION: &'static str = #version;
            const URL_PATH_SEGMENT: &'static str = #plural;
            type Scope = #scope;
        }
        impl ::k8s_openapi::Metadata for #object {
            type Ty = #metadata;
            fn metadata(&self) -> &#metadata {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut #metadata {
                &mut self.metadata
            }
        }
    }
}

fn definition(attributes: &Attributes, names: &Names) -> TokenStream {
    let Names { client, group, version, kind, plural, singular, .. } = names;
    let Attributes { shortnames, categories, namespaced, selectable, .. } = attributes;
    let has_status = attributes.status.is_some();
    let scale = option(attributes.scale.as_ref().map(|scale| scale_value(scale, client)));
    let columns = attributes.columns.iter().map(|column| column_value(column, client));
    let rules = attributes.rules.iter().map(|rule| rule_value(rule, client));
    let deprecated = option(attributes.deprecated.as_ref());
    quote! {
        #client::crd::Definition {
            group: #group,
            version: #version,
            kind: #kind,
            plural: #plural,
            singular: #singular,
            short_names: &[#(#shortnames),*],
            categories: &[#(#categories),*],
            is_namespaced: #namespaced,
            has_status: #has_status,
            scale: #scale,
            columns: &[#(#columns),*],
            selectable: &[#(#selectable),*],
            rules: &[#(#rules),*],
            deprecated: #deprecated,
        }
    }
}

fn scale_value(scale: &Scale, client: &Path) -> TokenStream {
    let Scale { spec, status, selector } = scale;
    let selector = option(selector.as_ref());
    quote!(#client::crd::Scale { spec: #spec, status: #status, selector: #selector })
}

fn column_value(column: &Column, client: &Path) -> TokenStream {
    let Column { name, value_type, json_path, .. } = column;
    let (description, format) = (option(column.description.as_ref()), option(column.format.as_ref()));
    let priority = option(column.priority.as_ref());
    quote! {
        #client::crd::Column {
            name: #name,
            value_type: #value_type,
            json_path: #json_path,
            description: #description,
            priority: #priority,
            format: #format,
        }
    }
}

fn rule_value(rule: &Rule, client: &Path) -> TokenStream {
    let text = &rule.rule;
    let (message, expression) = (option(rule.message.as_ref()), option(rule.message_expression.as_ref()));
    let (reason, field_path) = (option(rule.reason.as_ref()), option(rule.field_path.as_ref()));
    let optional_old_self = option(rule.optional_old_self.as_ref());
    quote! {
        #client::crd::Rule {
            rule: #text,
            message: #message,
            message_expression: #expression,
            reason: #reason,
            field_path: #field_path,
            optional_old_self: #optional_old_self,
        }
    }
}

fn option(value: Option<impl quote::ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
