//! Tests of command-line parsing by the rules of pflag and of Go's flag package.

use super::*;
use crate::args::{accept, honour, refuse_unless};

const FLAGS: &[Flag] = &[
    honour("help", BOOL, "help"),
    honour("etcd-servers", "strings", "endpoints of etcd"),
    honour("allow-privileged", BOOL, "allow privileged containers"),
    accept("v", "Level", "0"),
    accept("profiling", BOOL, "true"),
    refuse_unless("insecure-port", "int", &["0"], "there is no insecure port"),
];
const PFLAG: Table = Table { groups: &[FLAGS], dialect: Dialect::Pflag };
const GO: Table = Table { groups: &[FLAGS], dialect: Dialect::Go };

fn parse(table: Table, line: &str) -> Result<Parsed, FlagError> {
    table.parse(line.split_whitespace().map(str::to_owned))
}

#[test]
fn pflag_values_are_joined_or_separate_and_underscores_are_dashes() {
    let parsed =
        parse(PFLAG, "--etcd_servers=http://a:1,http://b:2 --allow-privileged --etcd-servers -x -v4")
            .unwrap();
    assert_eq!(parsed.list("etcd-servers"), ["http://a:1", "http://b:2", "-x"]);
    assert_eq!(
        parsed.last("etcd-servers"),
        Some("-x"),
        "the next word is the value, even if it begins with a dash"
    );
    assert_eq!((parsed.bool("allow-privileged"), parsed.last("v")), (Some(true), Some("4")));
    for line in ["-v 4", "-v=4", "--v=4", "--v 4", "-v4"] {
        assert_eq!(parse(PFLAG, line).unwrap().last("v"), Some("4"), "{line}");
    }
    assert!(parse(PFLAG, "-h").unwrap().has("help"));
    assert_eq!(parse(PFLAG, "--allow-privileged=f").unwrap().bool("allow-privileged"), Some(false));
}

#[test]
fn pflag_errors_have_the_texts_of_pflag() {
    for (line, expected) in [
        ("--nonsense=1", "unknown flag: --nonsense"),
        ("-etcd-servers x", "unknown shorthand flag: 'e' in -etcd-servers"),
        ("--etcd-servers", "flag needs an argument: --etcd-servers"),
        (
            "--allow-privileged=perhaps",
            "invalid argument \"perhaps\" for \"--allow-privileged\" flag: strconv.ParseBool: parsing \"perhaps\": invalid syntax",
        ),
        ("--allow-privileged false", "the program takes no arguments, got \"false\""),
        ("-- x", "the program takes no arguments, got \"x\""),
        ("---x", "bad flag syntax: ---x"),
    ] {
        assert_eq!(parse(PFLAG, line).unwrap_err().to_string(), expected, "{line}");
    }
}

#[test]
fn go_flags_have_one_dash_or_two() {
    for line in ["-etcd-servers x", "--etcd-servers x", "-etcd-servers=x", "--etcd-servers=x"] {
        assert_eq!(parse(GO, line).unwrap().last("etcd-servers"), Some("x"), "{line}");
    }
    let unknown = parse(GO, "--nonsense").unwrap_err();
    assert_eq!(unknown.to_string(), "flag provided but not defined: -nonsense");
    assert!(
        parse(GO, "-etcd_servers x").is_err(),
        "Go's flag package does not treat an underscore as a dash"
    );
}

#[test]
fn command_line_takes_precedence_over_environment_variables() {
    let environment = |name: &str| match name {
        "ETCD_ETCD_SERVERS" => Some("from-environment".to_owned()),
        "ETCD_PROFILING" => Some("false".to_owned()),
        _ => None,
    };
    let mut parsed = parse(GO, "--profiling").unwrap();
    parsed.add_environment(environment).unwrap();
    assert_eq!(
        (parsed.last("etcd-servers"), parsed.bool("profiling")),
        (Some("from-environment"), Some(true))
    );
    let refused = parse(GO, "").unwrap().add_environment(|_| Some("perhaps".to_owned()));
    assert!(matches!(refused, Err(FlagError::NotBool { .. })), "{refused:?}");
}

#[test]
fn ignored_flags_warn_and_refused_flags_report_the_reason() {
    let warnings = |line: &str| parse(PFLAG, line).unwrap().check();
    assert_eq!(warnings("--v=0 --profiling --allow-privileged --insecure-port=0"), Ok(Vec::new()));
    assert_eq!(warnings("--v=4"), Ok(vec!["--v=4 is accepted and has no effect".to_owned()]));
    let refused = warnings("--insecure-port=8080").unwrap_err().to_string();
    assert_eq!(refused, "--insecure-port=8080: there is no insecure port");
}

/// Harnesses search the help text with `(?m)^\s*--FLAG\b`.
#[test]
fn help_has_a_line_for_each_flag_that_may_be_given() {
    let help = PFLAG.help();
    let names: Vec<&str> = help.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["--allow-privileged", "--etcd-servers", "--help", "--profiling", "--v"]);
    assert!(help.contains("      --etcd-servers strings   endpoints of etcd\n"), "{help}");
}
