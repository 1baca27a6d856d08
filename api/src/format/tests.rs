//! Tests of each format.

use super::Format;

/// A format with texts that match and texts that do not.
type Case = (&'static str, &'static [&'static str], &'static [&'static str]);

const CASES: &[Case] = &[
    ("bsonobjectid", &["5f4dcc3b5aa765d61d8327de"], &["5f4d", "zf4dcc3b5aa765d61d8327de"]),
    (
        "uri",
        &["http://a.b/c?d=e#f", "mailto:a@b", "/a/b", "http://[::1]:80/", "*", "http://"],
        &["", "a/b", "http://a b/", "http://a:x/", "/%zz", ":a", "http://a\n"],
    ),
    (
        "email",
        &["a@b", "a.b+c@d.example", "Bob <a@b.c>", "\"x y\"@b.c", "a@[1.2.3.4]"],
        &["x", "a@", "@b", "a b@c", "a..b@c", "<a@b"],
    ),
    (
        "hostname",
        &["abc", "example.com", "1a.example", "a--b.com", "b\u{fc}cher.example", "a-bcd"],
        &["", "ab", "1.2.3.4", "-a.com", "a-.com", "a..com", "a.b", "exa_mple.com"],
    ),
    (
        "ipv4",
        &["1.2.3.4", "01.02.03.004", "::ffff:1.2.3.4"],
        &["1.2.3", "256.1.1.1", "::1", "a.b.c.d", "1.2.3.4.5"],
    ),
    ("ipv6", &["::1", "fe80::1", "::ffff:1.2.3.4"], &["1.2.3.4", ":::", "g::1"]),
    (
        "cidr",
        &["10.0.0.0/8", "10.0.0.1/32", "fd00::/64", "010.0.0.0/8"],
        &["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/x", "10.0.0.0/+8"],
    ),
    (
        "mac",
        &["00:00:5e:00:53:01", "02-00-5e-10-00-00-00-01", "0000.5e00.5301"],
        &["00:00:5e:00:53", "00:00-5e:00:53:01", "0:0:5e:0:53:1"],
    ),
    (
        "uuid",
        &["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109DAD11D180B400C04FD430C8"],
        &["x", "6ba7b810-9dad-11d1-80b4-00c04fd430c", "6ba7b810-9dad-11d1-80b4-00c04fd430c8-"],
    ),
    ("uuid3", &["6ba7b810-9dad-31d1-00b4-00c04fd430c8"], &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
    ("uuid4", &["6ba7b810-9dad-41d1-A0b4-00c04fd430c8"], &["6ba7b810-9dad-41d1-70b4-00c04fd430c8"]),
    ("uuid5", &["6ba7b810-9dad-51d1-80b4-00c04fd430c8"], &["6ba7b810-9dad-41d1-80b4-00c04fd430c8"]),
    (
        "isbn",
        &["0-306-40615-2", "978-0-306-40615-7", "0-8044-2957-X"],
        &["0-306-40615-3", "978-0-306-40615-8", ""],
    ),
    ("isbn10", &["0306406152"], &["9780306406157"]),
    ("isbn13", &["9780306406157"], &["0306406152"]),
    (
        "creditcard",
        &["4111 1111 1111 1111", "5555555555554444", "378282246310005", "30569309025904"],
        &["4111111111111112", "1", ""],
    ),
    ("ssn", &["078-05-1120", "078 05 1120"], &["078051120", "078-05-112a"]),
    ("hexcolor", &["#fff", "A0b1C2"], &["#ffff", "ggg", ""]),
    ("rgbcolor", &["rgb(0, 255,1)", "rgb( 1 ,2,3 )"], &["rgb(256,0,0)", "rgb(01,0,0)", "rgb(0,0)"]),
    ("byte", &["YQ==", "YWJj"], &["", "YQ", "***", "Y===", "YQ==YQ=="]),
    ("password", &["", "x"], &[]),
    ("date", &["2024-02-29"], &["2023-02-29", "2024-2-9", "2024-13-01", "2024-01-01T"]),
    (
        "duration",
        &["1h30m", "1.5s", "-2m", "0", "2 weeks", "3 days", "1d", "10\u{b5}s", "5 MIN"],
        &["", "1", "1 parsec", "h", "."],
    ),
    (
        "date-time",
        &["2024-02-29T23:59:59Z", "2024-02-29t01:02:03.123+01:00"],
        &["2024-02-29", "2024-02-29T24:00:00Z", "2024-02-29T23:59:60Z", "2024-02-29T23:59:59"],
    ),
    ("k8s-short-name", &["a-b"], &["a.b", "A", ""]),
    ("k8s-long-name", &["a-b.c"], &["a..b", "A"]),
    ("int64", &["anything"], &[]),
];

#[test]
fn formats_match_kubernetes() {
    for (name, good, bad) in CASES {
        let format = Format::parse(name).unwrap();
        for text in *good {
            assert!(format.matches(text), "{name} {text:?}");
        }
        for text in *bad {
            assert!(!format.matches(text), "{name} {text:?}");
        }
    }
    assert_eq!((Format::parse("datetime"), Format::parse("semver")), (Some(Format::DateTime), None));
}
