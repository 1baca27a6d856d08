//! Syntax check of cron schedules: five fields, or a name such as `@hourly`. The controller computes the
//! times.

/// Name, bounds and value names of the five fields.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day of week", 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks a schedule; the error is the text that clients see.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        let interval = schedule.strip_prefix("@every ").is_some_and(is_duration);
        if NAMED.contains(&schedule) || interval {
            return Ok(());
        }
        return Err(format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, (what, low, high, names)) in fields.iter().zip(FIELDS) {
        for range in field.split(',') {
            check_range(range, low, high, names).map_err(|why| format!("{why} in {what}: {field}"))?;
        }
    }
    Ok(())
}

/// Checks one range of a field: `*`, `?`, `n` or `n-m`, each with an optional `/step`.
fn check_range(text: &str, low: u32, high: u32, names: &[&str]) -> Result<(), String> {
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    if let Some(step) = step
        && step.parse::<u32>().ok().is_none_or(|step| step == 0)
    {
        return Err(format!("step of range should be a positive number: {step}"));
    }
    if range == "*" || range == "?" {
        return Ok(());
    }
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let value = |text: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(at) => u32::try_from(at).ok().map(|at| at + low),
            None => text.parse().ok(),
        };
        number.ok_or_else(|| format!("failed to parse int from {text}"))
    };
    let (from, to) = (value(from)?, value(to)?);
    if from < low {
        return Err(format!("beginning of range ({from}) below minimum ({low})"));
    }
    if to > high {
        return Err(format!("end of range ({to}) above maximum ({high})"));
    }
    if from > to {
        return Err(format!("beginning of range ({from}) beyond end of range ({to})"));
    }
    Ok(())
}

/// Whether a text is a Go duration such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if unit.len() == rest.len() {
            return false;
        }
        match ["ns", "us", "ms", "s", "m", "h"].into_iter().find_map(|u| unit.strip_prefix(u)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn schedules_are_five_fields_or_a_name() {
        for good in
            ["* * * * *", "*/5 0-6 1,15 jan-MAR mon", "@hourly", "@every 1h30m", "0 0 ? * 0", "5/15 * * * *"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "*/0 * * * *",
            "a * * * *",
            "5-1 * * * *",
            "@never",
            "@every x",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(check("* *").unwrap_err(), "expected exactly 5 fields, found 2: [* *]");
    }
}
