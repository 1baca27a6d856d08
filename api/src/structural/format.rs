//! The formats (`format`) that values of custom resources are checked against. All others are legal and mean nothing.

/// A format with a check; the names are those of a schema, of which dashes do not count.
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
    /// `int32`, of integers and numbers.
    Int32,
    /// `int64`, of integers and numbers.
    Int64,
    /// `float`, of numbers.
    Float,
    /// `double`, of numbers.
    Double,
}

/// Names without dashes.
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
    /// The format with this name, `date-time` or `datetime`; `None` for names that mean nothing.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.replace('-', "");
        let at = NAMES.binary_search_by(|(known, _)| (*known).cmp(&name)).ok()?;
        Some(NAMES[at].1)
    }
}
