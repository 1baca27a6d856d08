//! Functions and operators on values: tables of expressions and their values or errors.

use super::fixture::run;

/// Rows of expression and formatted value, or `error: ` and the message.
fn check(rows: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (text, wanted) in rows {
        let found = match run(text).0 {
            Ok(value) => value,
            Err(error) => format!("error: {error}"),
        };
        if found != *wanted {
            wrong.push(format!("{text}\n  is {found}\n  not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn arithmetic_has_the_values_and_errors_of_the_specification() {
    check(&[
        ("1 + 2 * 3 - 4 / 2", "5"),
        ("7 % 4", "3"),
        ("-7 % 4", "-3"),
        ("-7 / 2", "-3"),
        ("7u % 4u", "3u"),
        ("6u / 4u + 1u * 2u - 1u", "2u"),
        ("1.5 + 2.0 * 2.0 - 0.5 / 0.5", "4.5"),
        ("1.0 / 0.0", "inf"),
        ("1 / 0", "error: division by zero"),
        ("1u / 0u", "error: division by zero"),
        ("1 % 0", "error: modulus by zero"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("-9223372036854775808 - 1", "error: integer overflow"),
        ("9223372036854775807 * 2", "error: integer overflow"),
        ("-9223372036854775808 / -1", "error: integer overflow"),
        ("1u - 2u", "error: unsigned integer overflow"),
        ("18446744073709551615u + 1u", "error: unsigned integer overflow"),
        ("-self.a", "-1"),
        ("-(1.5)", "-1.5"),
        ("--self.a", "1"),
        ("!true || !!true", "true"),
        ("0xff + 0x1", "256"),
        ("'a' + 'b'", "\"ab\""),
        ("b'a' + b'b'", "b\"ab\""),
        ("[1] + [2, 3]", "[1, 2, 3]"),
        ("duration('1h') + duration('30m')", "5400s"),
        ("duration('1h') - duration('90m')", "-1800s"),
        ("timestamp('2024-01-01T00:00:00Z') + duration('1h')", "2024-01-01T01:00:00Z"),
        ("duration('1h') + timestamp('2024-01-01T00:00:00Z')", "2024-01-01T01:00:00Z"),
        ("timestamp('2024-01-01T00:00:00Z') - duration('1h')", "2023-12-31T23:00:00Z"),
        ("timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z')", "86400s"),
        ("timestamp('9999-12-30T00:00:00Z') + duration('48h')", "error: timestamp overflow"),
        ("duration('2562047h') + duration('2562047h')", "error: duration overflow"),
    ]);
}

#[test]
fn comparisons_work_across_number_types() {
    check(&[
        ("1 < 2 && 2 <= 2 && 3 > 2 && 2 >= 2", "true"),
        ("1 < 1.5 && 1.5 > 1 && 1u < 2 && 2 > 1u && 1.5 < 2u && 2u > 1.5", "true"),
        ("-1 < 1u && 1u > -1", "true"),
        ("'a' < 'b' && b'a' < b'b' && false < true", "true"),
        ("duration('1s') < duration('1m')", "true"),
        ("timestamp('2024-01-01T00:00:00Z') < timestamp('2025-01-01T00:00:00Z')", "true"),
        ("1 == 1 && 1 != 2 && 'a' != 'b'", "true"),
        ("dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) != 'a'", "true"),
        ("[1, 2] == [1, 2] && [1, 2] != [2, 1]", "true"),
        ("{'a': 1} == {'a': 1} && {'a': 1} != {'a': 2}", "true"),
        ("dyn([1]) == [1.0]", "true"),
        ("null == null", "true"),
        ("type(1) == int && type('') == string && type(1u) != int", "true"),
        ("type([]) == list && type({}) == map && type(null) == null_type", "true"),
        ("type(type(1)) == type", "true"),
        ("type(duration('1s')) == google.protobuf.Duration", "true"),
        ("0.0 / 0.0 == 0.0 / 0.0", "false"),
        ("0.0 / 0.0 < 1.0", "error: NaN values cannot be ordered"),
    ]);
}

#[test]
fn logical_operators_absorb_errors_and_conditionals_do_not() {
    check(&[
        ("1 / 0 > 0 || true", "true"),
        ("true || 1 / 0 > 0", "true"),
        ("1 / 0 > 0 && false", "false"),
        ("1 / 0 > 0 || false", "error: division by zero"),
        ("1 / 0 > 0 ? 1 : 2", "error: division by zero"),
        ("true ? 1 : 1 / 0", "1"),
        ("false ? 1 / 0 : 2", "2"),
        ("[0, 1].exists(x, 1 / x == 1)", "true"),
        ("[0, 2].exists(x, 1 / x == 1)", "error: division by zero"),
        ("[0, 2].all(x, 1 / x == 1)", "false"),
        ("[0, 1].all(x, 1 / x == 1)", "error: division by zero"),
        ("[0, 1].exists_one(x, 1 / x == 1)", "error: division by zero"),
        ("self.ios || true", "true"),
        ("self.ios && true", "error: no such overload"),
        ("dyn(1) + 'a' == 'b'", "error: no such overload"),
        ("self.ios > 1 && dyn('a') < 'b'", "true"),
    ]);
}

#[test]
fn macros_and_container_functions_have_the_values_of_the_specification() {
    check(&[
        ("size('héllo') + 'ab'.size()", "7"),
        ("size(b'abc') + b'ab'.size() + size([1]) + [1].size() + size({1: 2}) + {1: 2}.size()", "9"),
        ("2 in [1, 2] && !(3 in [1, 2]) && self.a in [1, 2]", "true"),
        ("dyn(1.0) in [1, 2] && !(dyn(1.5) in [1])", "true"),
        ("'a' in {'a': 1} && !('b' in {'a': 1})", "true"),
        ("self.a in [self.a]", "true"),
        ("[1, 2][1]", "2"),
        ("[1, 2][2]", "error: index out of bounds: 2"),
        ("[1, 2][-1]", "error: index out of bounds: -1"),
        ("[1, 2][dyn(1.0)]", "2"),
        ("{'a': 1}['a'] + {'a': 1}.a", "2"),
        ("{'a': 1}['b']", "error: no such key: b"),
        ("{1: 'x'}[2]", "error: no such key: 2"),
        ("{1: 'x'}[dyn(1u)]", "\"x\""),
        ("{true: 1, false: 2}[true]", "1"),
        ("[1, 2, 3].all(x, x > 0) && ![1, 2].all(x, x > 1)", "true"),
        (
            "[1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1) && [1, 2].existsOne(x, x == 1)",
            "true",
        ),
        ("[1, 2, 3].map(x, x * 2)", "[2, 4, 6]"),
        ("[1, 2, 3].map(x, x > 1, x * 2)", "[4, 6]"),
        ("[1, 2].map(x, 'k')", "[\"k\", \"k\"]"),
        ("[1, 2, 3].filter(x, x > 1)", "[2, 3]"),
        ("[[1, 2], [3]].map(x, x.map(y, y + 1))", "[[2, 3], [4]]"),
        ("{'a': 1, 'b': 2}.map(k, k)", "[\"a\", \"b\"]"),
        ("{'a': 1, 'b': 2}.all(k, k < 'c')", "true"),
        ("[].all(x, false) && ![].exists(x, true)", "true"),
        ("has({'a': 1}.a) && !has({'a': 1}.b)", "true"),
        ("[1, 2].all(i, v, v == i + 1)", "true"),
        ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", "true"),
        ("[1, 2].existsOne(i, v, v == 2) && [1, 2].exists_one(i, v, v == 2)", "true"),
        ("[5, 6].transformList(i, v, i + v)", "[5, 7]"),
        ("[5, 6].transformList(i, v, v > 5, i + v)", "[7]"),
        ("{'a': 1}.transformMap(k, v, v + 1)", "{\"a\": 2}"),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v + 1)", "{\"b\": 3}"),
        ("{'a': 'x'}.transformMapEntry(k, v, {v: k})", "{\"x\": \"a\"}"),
        ("[1, 2].transformMapEntry(i, v, v > 1, {v: i})", "{2: 1}"),
        ("['x', 'x'].transformMapEntry(i, v, {v: i})", "error: insert failed: key x already exists"),
    ]);
}

#[test]
fn conversions_have_the_values_and_errors_of_the_specification() {
    check(&[
        ("int('12') + int(1u) + int(1.9) + int(3)", "17"),
        ("int(-1.9)", "-1"),
        ("int(timestamp('1970-01-01T00:01:00Z'))", "60"),
        ("int(1e30)", "error: integer overflow"),
        ("int(18446744073709551615u)", "error: integer overflow"),
        ("uint('12') + uint(1) + uint(1.9) + uint(3u)", "17u"),
        ("uint(self.a - 2)", "error: unsigned integer overflow"),
        ("double('1.5') + double(1) + double(1u) + double(0.5)", "4.0"),
        (
            "string(1) + string(1u) + string(1.5) + string(true) + string('a') + string(b'b')",
            "\"111.5trueab\"",
        ),
        ("string(1.0) + ' ' + string(1e100) + ' ' + string(1.5e-7)", "\"1 1e+100 1.5e-07\""),
        ("string(duration('90m')) + string(duration('1.5s'))", "\"5400s1.5s\""),
        ("string(timestamp('2024-02-29T12:00:00.5+01:00'))", "\"2024-02-29T11:00:00.5Z\""),
        ("bytes('é')", "b\"é\""),
        ("string(b'\\xff')", "error: invalid UTF-8 in bytes, cannot convert to string"),
        ("bytes(b'a')", "b\"a\""),
        ("bool('true') && !bool('F') && bool(true)", "true"),
        ("bool(self.s)", "error: type conversion error from 'string' to 'bool'"),
        ("int(self.s)", "error: type conversion error from 'string' to 'int'"),
        ("timestamp(60)", "1970-01-01T00:01:00Z"),
        ("timestamp(timestamp('2024-01-01T00:00:00Z'))", "2024-01-01T00:00:00Z"),
        ("duration(duration('1s'))", "1s"),
        ("duration('1h2m3.5s')", "3723.5s"),
        ("duration('-1ms')", "-0.001s"),
        ("dyn(1)", "1"),
        ("type(1)", "int"),
    ]);
}

#[test]
fn escapes_in_literals_have_the_values_of_the_specification() {
    check(&[
        ("'a\\n\\t\\\\\\'\\x41\\u00e9\\U0001F601\\101'", "\"a\\n\\t\\\\'Aé😁A\""),
        ("r'a\\n'", "\"a\\\\n\""),
        ("'''a\n'b'''", "\"a\\n'b\""),
        ("\"\"\"a\"b\"\"\"", "\"a\\\"b\""),
        ("b'\\xff\\101' == b'\\377A'", "true"),
        ("1e3 + .5 + 1.5E-1", "1000.65"),
    ]);
}

#[test]
fn timestamp_and_duration_functions_use_utc_unless_given_a_time_zone() {
    let t = "timestamp('2024-02-29T12:30:15.5Z')";
    let fields = [
        ("getFullYear()", "2024"),
        ("getMonth()", "1"),
        ("getDayOfYear()", "59"),
        ("getDayOfMonth()", "28"),
        ("getDate()", "29"),
        ("getDayOfWeek()", "4"),
        ("getHours()", "12"),
        ("getMinutes()", "30"),
        ("getSeconds()", "15"),
        ("getMilliseconds()", "500"),
        ("getHours('Europe/Berlin')", "13"),
        ("getHours('-02:30')", "10"),
        ("getHours('02:00')", "14"),
        ("getDate('Asia/Tokyo')", "29"),
        ("getFullYear('UTC')", "2024"),
        ("getMonth('America/New_York')", "1"),
        ("getDayOfYear('UTC')", "59"),
        ("getDayOfMonth('UTC')", "28"),
        ("getDayOfWeek('UTC')", "4"),
        ("getMinutes('Asia/Kolkata')", "0"),
        ("getSeconds('UTC')", "15"),
        ("getMilliseconds('UTC')", "500"),
        ("getHours('Nowhere/Land')", "error: unknown time zone Nowhere/Land"),
    ];
    for (call, wanted) in fields {
        check(&[(&format!("{t}.{call}"), wanted)]);
    }
    check(&[
        ("duration('1h30m').getHours()", "1"),
        ("duration('1h30m').getMinutes()", "90"),
        ("duration('1h').getSeconds()", "3600"),
        ("duration('1.5s').getMilliseconds()", "500"),
        ("self.t.getHours() + self.d.getMinutes()", "102"),
    ]);
}

#[test]
fn string_functions_have_the_values_of_the_reference_implementation() {
    check(&[
        ("'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')", "true"),
        ("'hello'.matches('^h.*o$') && matches('hello', 'l+') && !'x'.matches('y')", "true"),
        ("'héllo'.charAt(1) + 'ab'.charAt(2)", "\"é\""),
        ("'ab'.charAt(3)", "error: index out of range: 3"),
        ("'hello'.indexOf('l') + 'hello'.indexOf('l', 3) + 'hello'.indexOf('z')", "4"),
        ("'hello'.indexOf('')", "0"),
        ("'hello'.lastIndexOf('l')", "3"),
        ("'hello'.lastIndexOf('l', 2)", "2"),
        ("'hello'.lastIndexOf('')", "5"),
        ("'hello'.indexOf('l', -1)", "error: index out of range: -1"),
        ("'HéLLO'.lowerAscii() + 'hé'.upperAscii()", "\"hélloHé\""),
        ("'banana'.replace('a', 'o')", "\"bonono\""),
        ("'banana'.replace('a', 'o', 2)", "\"bonona\""),
        ("'a,b,c'.split(',')", "[\"a\", \"b\", \"c\"]"),
        ("'a,b,c'.split(',', 2)", "[\"a\", \"b,c\"]"),
        ("'a,b'.split(',', 0)", "[]"),
        ("'abc'.split('')", "[\"a\", \"b\", \"c\"]"),
        ("'abc'.split('', 2)", "[\"a\", \"bc\"]"),
        ("'hello'.substring(1) + 'hello'.substring(1, 3)", "\"elloel\""),
        ("'hello'.substring(6)", "error: index out of range: 6"),
        ("'hello'.substring(3, 1)", "error: invalid substring range. start: 3, end: 1"),
        ("'  a b\\n'.trim()", "\"a b\""),
        ("['a', 'b'].join() + ['a', 'b'].join('-')", "\"aba-b\""),
        ("strings.quote('a\"b\\n')", "\"\\\"a\\\\\\\"b\\\\n\\\"\""),
        ("'%s %d %s'.format(['a', 1, true])", "\"a 1 true\""),
        (
            "'%.2f %f %b %x %X %o %%'.format([1234.5, 1.5, 5, 255, 'k', 8])",
            "\"1,234.50 1.500000 101 ff 6B 10 %\"",
        ),
        ("'%s'.format([[1, 'a', 1.5]])", "\"[1, \\\"a\\\", 1.500000]\""),
        ("'%s'.format([{'b': 1, 'a': 'x'}])", "\"{\\\"a\\\":\\\"x\\\", \\\"b\\\":1}\""),
        ("'%e'.format([1052.032911275])", "\"1.052033\\u{202f}×\\u{202f}10⁰³\""),
        ("self.s.format([])", "\"hello world\""),
        ("(self.s + '%d').format([])", "error: index 0 out of range"),
    ]);
}

#[test]
fn patterns_match_as_in_re2() {
    check(&[
        ("'abc123'.find('[0-9]+')", "\"123\""),
        ("'abc'.find('[0-9]+')", "\"\""),
        ("'a1b22'.findAll('[0-9]+')", "[\"1\", \"22\"]"),
        ("'a1b22'.findAll('[0-9]+', 1)", "[\"1\"]"),
        ("'a1b22'.findAll(self.s.substring(0, 0) + '[0-9]+')", "[\"1\", \"22\"]"),
        ("'é'.matches('^\\\\w$') || '٣'.matches('\\\\d')", "false"),
        ("'a-b_c'.matches('^[\\\\w-]+$') && 'a.b'.matches('^\\\\Qa.b\\\\E$')", "true"),
        ("'a{b'.matches('a{b') && '[['.matches('^[[]+$') && 'x'.matches('^[[:alpha:]]$')", "true"),
        ("lists.range(40).all(i, string(i).matches('^' + string(i) + '$'))", "true"),
        ("['a', 'b'].map(p, 'xaxb'.findAll(p + '.'))", "[[\"ax\"], []]"),
        ("self.names.all(n, n.matches(dyn('^[a-c]+$')))", "true"),
        ("'a'.find('(?=a)')", "error: error parsing regexp: not a regular expression, or too large: `(?=a)`"),
        (
            "self.s.matches('(' + self.e)",
            "error: error parsing regexp: not a regular expression, or too large: `(a`",
        ),
    ]);
}

#[test]
fn list_functions_have_the_values_of_the_reference_implementation() {
    check(&[
        ("[1, 2, 3].slice(1, 3)", "[2, 3]"),
        ("[1].slice(0, 2)", "error: cannot slice(0, 2), list is length 1"),
        ("[1].slice(1, 0)", "error: cannot slice(1, 0), start index must be less than or equal to end index"),
        ("[1].slice(-1, 0)", "error: cannot slice(-1, 0), negative indexes not supported"),
        ("[[1], [2, 3]].flatten()", "[1, 2, 3]"),
        ("[[[1]], [[2]]].flatten(2)", "[1, 2]"),
        ("[[1]].flatten(-1)", "error: level must be non-negative"),
        ("[3, 1, 2].sort()", "[1, 2, 3]"),
        ("['b', 'a'].sort()", "[\"a\", \"b\"]"),
        ("['bb', 'a', 'ccc'].sortBy(x, -size(x))", "[\"ccc\", \"bb\", \"a\"]"),
        ("self.items.sortBy(i, -i.port)[0].name", "\"n10\""),
        ("lists.range(3)", "[0, 1, 2]"),
        ("lists.range(2000000)", "error: lists.range(2000000) is longer than 1000000 elements"),
        ("[1, 2].reverse()", "[2, 1]"),
        ("[1, 2, 1].distinct()", "[1, 2]"),
        ("[1, 2, 2].isSorted() && ![2, 1].isSorted() && ['a', 'b'].isSorted()", "true"),
        ("[1, 2].sum() + [].sum()", "3"),
        ("[1u, 2u].sum()", "3u"),
        ("[1.5, 2.0].sum()", "3.5"),
        ("[duration('1s'), duration('2s')].sum()", "3s"),
        ("[9223372036854775807, 1].sum()", "error: integer overflow"),
        ("[2, 3, 1].min() + [2, 3, 1].max()", "4"),
        ("['b', 'a'].min() + ['b', 'a'].max()", "\"ab\""),
        ("lists.range(0).min()", "error: min called on empty list"),
        ("[1, 2, 1].indexOf(1) + [1, 2, 1].lastIndexOf(1) + [1].indexOf(2)", "1"),
        ("sets.contains([1, 2], [1]) && !sets.contains([1], [1, 2]) && sets.contains([1], [])", "true"),
        ("sets.equivalent([1, 2, 2], [2, 1]) && !sets.equivalent([1], [1, 2])", "true"),
        ("sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])", "true"),
    ]);
}

#[test]
fn optional_values_propagate_absence() {
    check(&[
        ("optional.of(1)", "some(1)"),
        ("optional.none()", "none"),
        ("optional.ofNonZeroValue(0)", "none"),
        ("optional.ofNonZeroValue('a')", "some(\"a\")"),
        ("optional.of(1).hasValue() && !optional.none().hasValue()", "true"),
        ("optional.of(1).value()", "1"),
        ("optional.none().value()", "error: optional.none() dereference"),
        ("optional.none().or(optional.of(2))", "some(2)"),
        ("optional.of(1).or(optional.of(1 / 0))", "some(1)"),
        ("optional.none().orValue(2) + optional.of(1).orValue(2)", "3"),
        ("optional.of(1).optMap(x, x + 1)", "some(2)"),
        ("optional.none().optMap(x, x + 1)", "none"),
        ("optional.of(1).optFlatMap(x, optional.of(x + 1))", "some(2)"),
        ("optional.of([1]).optFlatMap(x, x[?1])", "none"),
        ("[1, 2].first().value() + [1, 2].last().value()", "3"),
        ("lists.range(0).first()", "none"),
        ("optional.unwrap([optional.of(1), optional.none()])", "[1]"),
        ("[optional.of(1), optional.none()].unwrapOpt()", "[1]"),
        ("{'a': 1}.?a", "some(1)"),
        ("{'a': 1}.?b", "none"),
        ("{'a': {'b': 1}}.?a.b", "some(1)"),
        ("{'a': {'b': 1}}.?x.b", "none"),
        ("[1][?0].value() + [1][?5].orValue(7)", "8"),
        ("{'a': 1}[?'a']", "some(1)"),
        ("[?optional.of(1), ?optional.none(), 3]", "[1, 3]"),
        ("{?'a': optional.of(1), ?'b': optional.none()}", "{\"a\": 1}"),
        ("self.?replicas.orValue(0) + self.?absent.optMap(x, 1).orValue(5)", "8"),
        ("has(self.?nested.b)", "true"),
        ("optional.of(1) == optional.of(1) && optional.none() != optional.of(1)", "true"),
    ]);
}

#[test]
fn bind_gives_a_value_a_name() {
    let env = super::fixture::plain();
    let program = env.compile("cel.bind(x, [1, 2].map(i, i * 2), [1].map(j, x[j]) + x)").unwrap();
    let program = program.program().unwrap();
    let (value, _) = program.eval(&[] as &[(&str, crate::Val<'_>); 0], u64::MAX);
    assert_eq!(super::fixture::show(&value.unwrap()), "[4, 2, 4]");
}
