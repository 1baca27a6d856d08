//! Templates against what Go's `text/template` gives.

use crate::{Functions, Limits, Missing, NoFunctions, Template};
use proptest::prelude::*;
use serde_json::{Value, json};

fn render(text: &str) -> Result<String, String> {
    let data = json!({
        "name": "web", "count": 3, "none": null, "on": true,
        "labels": {"b": "2", "a": "1"},
        "list": [{"k": "x", "n": 1}, {"k": "y", "n": 2}],
    });
    let template = Template::parse(text, &NoFunctions).map_err(|error| error.to_string())?;
    template.render(&data, &NoFunctions, Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn actions_give_go_texts() {
    for (text, expected) in [
        ("{{.name}} {{ .list }}", "web [map[k:x n:1] map[k:y n:2]]"),
        ("{{.labels}}|{{.nothing}}|{{.none.deeper}}", "map[a:1 b:2]|<no value>|<no value>"),
        ("{{range $k, $v := .labels}}{{$k}}={{$v}} {{end}}", "a=1 b=2 "),
        ("{{range .list}}{{.k}}{{else}}none{{end}}{{range .nothing}}x{{else}} none{{end}}", "xy none"),
        ("{{range $i, $e := .list}}{{if $i}},{{end}}{{$e.k}}{{$.name}}{{end}}", "xweb,yweb"),
        ("{{range 5}}{{if eq . 1}}{{continue}}{{end}}{{if eq . 3}}{{break}}{{end}}{{.}}{{end}}", "02"),
        ("{{with .nothing}}a{{else with .name}}{{.}}{{else}}c{{end}}", "web"),
        ("{{with $x := .name}}{{$x}}{{end}}{{if $y := .count}}{{$y}}{{end}}", "web3"),
        ("{{define \"t\"}}<{{.}}>{{end}}{{template \"t\" .name}}{{block \"b\" 1}}{{.}}{{end}}", "<web>1"),
        ("{{ $f := false }}{{range .list}}{{if eq .k \"y\"}}{{$f = true}}{{end}}{{end}}{{$f}}", "true"),
        ("{{ or .nothing \"d\" }} {{ and .name .count }} {{ not .on }}", "d 3 false"),
        ("{{ or .name (index .list 9) }}", "web"),
        ("{{ index .list 1 \"k\" }}{{ (index .list 0).n }}{{ len .list }}", "y12"),
        ("{{ index .labels \"zz\" }}{{ slice .name 1 }}", "<no value>eb"),
        (
            "{{ eq .nothing \"Always\" }} {{ ne .count 3 }} {{ lt 1 2 }} {{ eq .count 1 3 }}",
            "false false true true",
        ),
        (
            "{{ printf \"kwok-%s %05d %-4s| %.2f %q %v%%\" .name 42 \"a\" 1.5 \"x\" .on }}",
            "kwok-web 00042 a   | 1.50 \"x\" true%",
        ),
        ("{{ 1000000.0 }} {{ 0.25 }} {{ 0x10 }} {{ -3 }}", "1e+06 0.25 16 -3"),
        ("a {{- \" b \" -}} c{{/* }} */}}", "a b c"),
        ("{{ \"}}\" }}{{ print 1 2 \"a\" 3 }}", "}}1 2a3"),
        ("{{ .list | len | printf \"%d-%d\" 7 }}", "7-2"),
        ("{{ nil | default \"x\" }}{{ dict \"a\" 1 }}{{ list 1 2 | join \"-\" }}", "xmap[a:1]1-2"),
        ("{{ \"a,b\" | splitList \",\" | last | upper | repeat 2 | quote }}", "\"BB\""),
        ("{{ add 1 2 3 }} {{ sub 5 2 }} {{ div 7 2 }} {{ mod 7 2 }} {{ max 1 9 4 }}", "6 3 3 1 9"),
        (
            "{{ \"x: 1\\ny: 2\" | nindent 2 }}|{{ \"abc\" | b64enc | b64dec | trunc -2 }}",
            "\n  x: 1\n  y: 2|bc",
        ),
        (
            "{{ .labels | toJson }}{{ hasKey .labels \"a\" }}{{ ternary \"y\" \"n\" .on }}",
            "{\"a\":\"1\",\"b\":\"2\"}truey",
        ),
    ] {
        assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_is_refused_with_its_line() {
    for (text, problem) in [
        ("\n{{genCA \"a\"}}", "2: function \"genCA\" is not supported"),
        ("{{ .name | call }}", "1: function \"call\" is not supported"),
        ("a\n{{if true}}\n{{ $x }}{{end}}", "3: undefined variable $x"),
        ("{{if true}}{{ $x := 1 }}{{end}}{{$x}}", "1: undefined variable $x"),
        ("{{range .list}}", "1: \"range\" has no {{end}}"),
        ("{{end}}", "1: {{end}} closes nothing"),
        ("{{break}}", "1: \"break\" is outside of a range"),
        ("{{template \"t\"}}", "1: template \"t\" is not defined"),
        ("{{ .a..b }}", "1: \".\" without a name behind it"),
        ("{{ .name.deeper }}", "1: cannot read .deeper of a string"),
        ("{{ index .nothing 0 }}", "1: index: it cannot index nil"),
        ("{{ index .list 7 }}", "1: index: index 7 is out of range: the list has 2"),
        ("{{ lt .name 3 }}", "1: lt: cannot compare a string with a number"),
        ("{{ range .name }}{{end}}", "1: range cannot go over a string"),
        ("{{ printf \"%d\" }}", "1: %d has no argument"),
    ] {
        let found = render(text).unwrap_err();
        assert!(found == problem || found.ends_with(problem.trim_start_matches("1: ")), "{text}: {found}");
    }
}

#[test]
fn runs_are_bounded_in_steps_and_bytes() {
    for (text, problem) in [
        ("{{range 1000}}{{range 1000}}{{end}}{{end}}", "steps"),
        ("{{define \"t\"}}{{template \"t\"}}{{end}}{{template \"t\"}}", "call each other"),
        ("{{range 99999999}}{{end}}", "is longer than"),
        ("{{ repeat 99999999 \"x\" }}", "larger"),
        ("{{range 99}}{{ repeat 99999 \"x\" }}{{end}}", "larger"),
        ("{{ $l := list 1 }}{{range 60}}{{ $l = list $l $l }}{{end}}", "larger"),
        ("{{ $s := \"x\" }}{{range 60}}{{ $s = print $s $s }}{{end}}", "larger"),
        ("{{ $s := repeat 1000 \"x\" }}{{range 99}}{{ $s = replace \"x\" \"xx\" $s }}{{end}}", "larger"),
    ] {
        let found = render(text).unwrap_err();
        assert!(found.contains(problem), "{text}: {found}");
    }
}

#[test]
fn what_functions_read_counts_before_they_read_it() {
    // Members of the data are read without a copy.
    let data = json!({"s": "x".repeat(100_000)});
    let render = |text: &str| {
        let template = Template::parse(text, &NoFunctions).unwrap();
        template.render(&data, &NoFunctions, Limits::default()).map_err(|error| error.to_string())
    };
    let many = " .s".repeat(20_000);
    for text in [
        format!("{{{{ $t := print{many} }}}}"),
        format!("{{{{ $t := list{many} }}}}"),
        format!("{{{{ $t := quote{many} }}}}"),
        format!("{{{{ $t := dict{many} }}}}"),
        format!("{{{{ $t := concat{} }}}}", " (list $.s)".repeat(100)),
        "{{ range 90000 }}{{ $t := contains \"y\" $.s }}{{ end }}".to_owned(),
        "{{ range 90000 }}{{ $t := eq $.s $.s }}{{ end }}".to_owned(),
        "{{ range 90000 }}{{ $t := printf \"%.1s\" $.s }}{{ end }}".to_owned(),
        format!("{{{{ printf \"{}\" {} }}}}", "%1024d".repeat(9000), "1 ".repeat(9000)),
    ] {
        let found = render(&text).unwrap_err();
        assert!(
            found.contains("steps") || found.contains("larger"),
            "{}: {found}",
            &text[..90.min(text.len())]
        );
    }
    let modest = "{{ range 900 }}{{ $n := len $.s }}{{ hasPrefix \"x\" $.s }}{{ end }}";
    assert_eq!(render(modest).unwrap().len(), 3600);
}

#[test]
fn what_is_in_each_other_is_bounded_so_that_no_stack_is_used_up() {
    let ifs = |inner: &str| format!("{}{inner}{}", "{{if true}}".repeat(60), "{{end}}".repeat(60));
    let pipe = "| add 1 ".repeat(60);
    let parentheses = (0..60).fold("1".to_owned(), |inner, _| format!("({inner} {pipe})"));
    for (text, problem) in [
        (
            format!("{{{{define \"t\"}}}}{}{{{{end}}}}{{{{template \"t\"}}}}", ifs("{{template \"t\"}}")),
            "in each other",
        ),
        (format!("{{{{ {parentheses} }}}}"), "more than 256 commands"),
        (format!("{{{{ 1 {} }}}}", "| add 1 ".repeat(300)), "commands"),
        (
            "{{ $l := list 1 }}{{range 2000}}{{ $l = list $l }}{{end}}".to_owned(),
            "lists and maps in each other",
        ),
        (format!("{{{{ {}1{} }}}}", "(".repeat(100), ")".repeat(100)), "parentheses"),
    ] {
        let run = move || {
            let found = render(&text).unwrap_err();
            assert!(found.contains(problem), "{problem}: {found}");
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    }
}

#[test]
fn callers_add_functions_and_may_refuse_missing_members() {
    struct Twice;
    impl Functions for Twice {
        fn has(&self, name: &str) -> bool {
            name == "Twice"
        }
        fn call(&self, _: &str, arguments: &[&Value]) -> Result<Value, String> {
            Ok(Value::from(arguments[0].as_i64().ok_or("no number")? * 2))
        }
    }
    let template = Template::parse("{{ .a | Twice }}\n{{ .b }}", &Twice).unwrap();
    let limits = Limits { missing: Missing::Refused, ..Limits::default() };
    let whole = template.render(&json!({"a": 2, "b": 1}), &Twice, limits).unwrap();
    assert_eq!(whole, "4\n1");
    let error = template.render(&json!({"a": 2}), &Twice, limits).unwrap_err();
    assert_eq!((error.line, &*error.problem), (2, "there is no field .b"));
}

proptest! {
    /// Any text is a template or an error, and any template ends.
    #[test]
    fn templates_of_any_text_do_not_panic(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "{{", "}}", "{{- ", " -}}", "if ", "range ", "else", "end", "with ", ".", ".a", "$", "$x", ":=", "=", "|", "(", ")", "\"", "`",
            "index ", "list ", "1", "-", " ", "\n", "é", "define \"t\"", "template \"t\"", "printf \"%9d\" ", ",", "break", "repeat 9 ",
        ]), 0..24)
    ) {
        let text: String = parts.concat();
        if let Ok(template) = Template::parse(&text, &NoFunctions) {
            let limits = Limits { steps: 1000, bytes: 1000, ..Limits::default() };
            let _ = template.render(&json!({"a": [1, {"a": "b"}]}), &NoFunctions, limits);
        }
    }

    /// Any sequence of functions of any values ends within its bounds.
    #[test]
    fn functions_of_any_values_stay_within_their_bounds(
        calls in proptest::collection::vec(
            (
                proptest::sample::select(vec![
                    "print", "println", "printf \"%d %9.3f %q %x %s\"", "quote", "squote", "indent 9", "nindent 3", "repeat 7", "replace \"a\" \"bb\"",
                    "trunc -3", "join \", \"", "list", "dict", "concat", "append .l", "until", "toJson", "fromJson", "b64enc", "b64dec", "title", "upper",
                    "sortAlpha", "uniq", "reverse", "rest", "keys", "values", "slice", "index .l", "add", "mul", "div", "mod", "sub", "max", "int", "len", "eq",
                    "lt", "splitList \"a\"", "trimAll \"é\"", "ternary 1 2", "default .d", "get .d", "has 1", "first",
                ]),
                proptest::sample::select(vec![".", ".l", ".d", ".s", ".n", "$v", "-1", "9223372036854775807", "1e308", "nil", "\"é\"", "$v $v"]),
            ),
            0..12,
        )
    ) {
        let actions = calls.iter().map(|(function, argument)| format!("{{{{ $v = {function} {argument} }}}}{{{{ $v }}}}"));
        let text = format!("{{{{ $v := .s }}}}{{{{ range 30 }}}}{}{{{{ end }}}}", actions.collect::<String>());
        if let Ok(template) = Template::parse(&text, &NoFunctions) {
            let data = json!({"l": [1, "a", null, {"b": 2.5}], "d": {"a": "é", "": [[]]}, "s": "aéa\n%d", "n": 3});
            if let Ok(made) = template.render(&data, &NoFunctions, Limits { steps: 3000, bytes: 3000, ..Limits::default() }) {
                prop_assert!(made.len() <= 3000);
            }
        }
    }
}
