//! Formats (`format`) that values of custom resources are checked against. Other formats are valid and have
//! no effect. The checks accept what Kubernetes accepts, which sometimes differs from the standards.

mod address;
mod code;
#[cfg(test)]
mod tests;
mod time;

use crate::limits::{LABEL_MAX, SUBDOMAIN_MAX};
use crate::name;

/// Format of texts or numbers. Its name is the schema's `format`, with dashes ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// `bsonobjectid`
    BsonObjectId,
    /// `uri`
    Uri,
    /// `email`
    Email,
    /// `hostname`
    Hostname,
    /// `ipv4`
    Ipv4,
    /// `ipv6`
    Ipv6,
    /// `cidr`
    Cidr,
    /// `mac`
    Mac,
    /// `uuid`
    Uuid,
    /// `uuid3`
    Uuid3,
    /// `uuid4`
    Uuid4,
    /// `uuid5`
    Uuid5,
    /// `isbn`
    Isbn,
    /// `isbn10`
    Isbn10,
    /// `isbn13`
    Isbn13,
    /// `creditcard`
    CreditCard,
    /// `ssn`
    Ssn,
    /// `hexcolor`
    HexColor,
    /// `rgbcolor`
    RgbColor,
    /// `byte`: base64.
    Byte,
    /// `password`: any text.
    Password,
    /// `date`
    Date,
    /// `duration`
    Duration,
    /// `datetime`, `date-time`
    DateTime,
    /// `k8s-short-name`: a DNS label.
    ShortName,
    /// `k8s-long-name`: a DNS subdomain.
    LongName,
    /// `int32`, for integers and numbers.
    Int32,
    /// `int64`, for integers and numbers.
    Int64,
    /// `float`, for numbers.
    Float,
    /// `double`, for numbers.
    Double,
}

/// Format names without dashes.
const NAMES: &[(&str, Format)] = &[
    ("bsonobjectid", Format::BsonObjectId),
    ("byte", Format::Byte),
    ("cidr", Format::Cidr),
    ("creditcard", Format::CreditCard),
    ("date", Format::Date),
    ("datetime", Format::DateTime),
    ("double", Format::Double),
    ("duration", Format::Duration),
    ("email", Format::Email),
    ("float", Format::Float),
    ("hexcolor", Format::HexColor),
    ("hostname", Format::Hostname),
    ("int32", Format::Int32),
    ("int64", Format::Int64),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("isbn", Format::Isbn),
    ("isbn10", Format::Isbn10),
    ("isbn13", Format::Isbn13),
    ("k8slongname", Format::LongName),
    ("k8sshortname", Format::ShortName),
    ("mac", Format::Mac),
    ("password", Format::Password),
    ("rgbcolor", Format::RgbColor),
    ("ssn", Format::Ssn),
    ("uri", Format::Uri),
    ("uuid", Format::Uuid),
    ("uuid3", Format::Uuid3),
    ("uuid4", Format::Uuid4),
    ("uuid5", Format::Uuid5),
];

impl Format {
    /// The format with this name, such as `date-time` or `datetime`; `None` for names without effect.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.replace('-', "");
        let at = NAMES.binary_search_by(|(known, _)| (*known).cmp(&name)).ok()?;
        Some(NAMES[at].1)
    }

    /// Whether the format applies to texts; the others apply to numbers.
    #[must_use]
    pub const fn is_of_text(self) -> bool {
        !matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }

    /// Whether a text has this format. Number formats accept every text.
    #[must_use]
    pub fn matches(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => code::bson_object_id(text),
            Self::Uri => address::uri(text),
            Self::Email => address::email(text),
            Self::Hostname => address::hostname(text),
            Self::Ipv4 => address::ipv4(text),
            Self::Ipv6 => address::ipv6(text),
            Self::Cidr => address::cidr(text),
            Self::Mac => address::mac(text),
            Self::Uuid => code::uuid(text, None, false),
            Self::Uuid3 => code::uuid(text, Some(b'3'), false),
            Self::Uuid4 => code::uuid(text, Some(b'4'), true),
            Self::Uuid5 => code::uuid(text, Some(b'5'), true),
            Self::Isbn => code::isbn10(text) || code::isbn13(text),
            Self::Isbn10 => code::isbn10(text),
            Self::Isbn13 => code::isbn13(text),
            Self::CreditCard => code::credit_card(text),
            Self::Ssn => code::ssn(text),
            Self::HexColor => code::hex_color(text),
            Self::RgbColor => code::rgb_color(text),
            Self::Byte => code::base64(text),
            Self::Date => time::date(text),
            Self::Duration => kstore_go_duration::parse_format(text).is_some(),
            Self::DateTime => time::date_time(text),
            Self::ShortName => text.len() <= LABEL_MAX && name::dns1123_label(text).is_empty(),
            Self::LongName => text.len() <= SUBDOMAIN_MAX && name::dns1123_subdomain(text).is_empty(),
            Self::Password | Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
        }
    }
}
