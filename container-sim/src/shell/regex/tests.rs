//! Matches, errors, and the work of hostile expressions.

use super::*;

fn found(regex: Result<Regex, String>, text: &str) -> Option<Vec<String>> {
    let groups = regex.unwrap().find(text.as_bytes(), 0, true, &WorkMeter::default())?;
    let part =
        |place: Option<(usize, usize)>| place.map_or("-".to_owned(), |(from, to)| text[from..to].to_owned());
    Some(groups.into_iter().map(part).collect())
}

#[test]
fn expressions_match_as_posix_says() {
    for (extended, pattern, text, groups) in [
        (false, "b*", "abb", Some(vec![""])),
        (false, "ab*", "xabbc", Some(vec!["abb"])),
        (false, "\\(a\\|b\\)*c", "ababc", Some(vec!["ababc", "b"])),
        (false, "a+", "aa", None),
        (false, "a\\+", "aa", Some(vec!["aa"])),
        (false, "*a", "*a", Some(vec!["*a"])),
        (false, "\\(.\\)\\1", "abccd", Some(vec!["cc", "c"])),
        (false, "^a$", "a", Some(vec!["a"])),
        (false, "a^b$c", "a^b$c", Some(vec!["a^b$c"])),
        (true, "a|ab", "abc", Some(vec!["ab"])),
        (true, "(a)(b)?", "ac", Some(vec!["a", "a", "-"])),
        (true, "[[:digit:]]{2,3}", "a12345", Some(vec!["123"])),
        (true, "[^]a]+", "]abc]", Some(vec!["bc"])),
        (true, "\\<is\\>", "this is", Some(vec!["is"])),
        (true, "x*", "", Some(vec![""])),
        (true, "(ab|a)(bcd|c)", "abcd", Some(vec!["abcd", "a", "bcd"])),
        (true, "é.", "caféx", Some(vec!["éx"])),
        (true, "a{,2}b", "aaab", Some(vec!["aab"])),
    ] {
        let regex = if extended { Regex::extended(pattern, false) } else { Regex::basic(pattern, false) };
        let groups = groups.map(|groups| groups.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let result = found(regex, text);
        assert_eq!(result, groups, "{pattern}");
    }
    for pattern in ["(", "[a", "a{3,1}", "\\", "(a", "a{256}"] {
        assert!(Regex::extended(pattern, false).is_err(), "{pattern}");
    }
    assert!(found(Regex::extended("HeLLo", true), "hEllO").is_some());
}

#[test]
fn hostile_expressions_take_a_bounded_work() {
    let text = vec![b'a'; 3_000];
    for pattern in ["(a*)*b", "(a|a)*b", "(a|aa)+$x", "a?a?a?a?a?a?aaaaaab", "(.*)(.*)(.*)(.*)b"] {
        let work = WorkMeter::default();
        assert_eq!(Regex::extended(pattern, false).unwrap().find(&text, 0, true, &work), None);
        assert!(work.total() < 100_000_000, "{pattern}: {}", work.total());
    }
    let work = WorkMeter::default();
    let back = Regex::basic("\\(a*\\)*\\1b", false).unwrap();
    assert_eq!(back.find(&text, 0, true, &work), None);
    assert!(work.killed().is_some(), "a search with back-references ends with its work");
    let nested = format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(Regex::extended(&nested, false).is_err());
    assert!(Regex::extended("((((a{255}){255}){255}){255})", false).is_err());
}

proptest::proptest! {
    #[test]
    fn no_expression_panics(pattern in "[a-c.*+?(){}|^$\\[\\]\\\\0-9,:-]{0,24}", text in "[a-c]{0,12}") {
        for regex in [Regex::basic(&pattern, false), Regex::extended(&pattern, true)].into_iter().flatten() {
            let _ = regex.find(text.as_bytes(), 0, true, &WorkMeter::default());
        }
    }
}
