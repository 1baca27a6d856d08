//! Flags of the requests that the server runs at a time.

use super::{FlagError, FlagValues};
use kstore_pipeline::fairness::RequestLimits;

const FAIR: &str = "enable-priority-and-fairness";
const READS: &str = "max-requests-inflight";
const WRITES: &str = "max-mutating-requests-inflight";

/// The limits that the flags configure. A limit of 0 is none; priority and fairness need one.
///
/// # Errors
/// A value that cannot be used.
pub(crate) fn request_limits(flags: &impl FlagValues) -> Result<RequestLimits, FlagError> {
    let default = RequestLimits::default();
    let is_fair = flags.is_on(FAIR, default.is_fair)?;
    let reads = number(flags, READS)?.unwrap_or(default.reads);
    let writes = number(flags, WRITES)?.unwrap_or(default.writes);
    if is_fair && reads == 0 && writes == 0 {
        let reason = format!("with --{FAIR} the sum of --{READS} and --{WRITES} must be above 0");
        return Err(FlagError::new(READS, "0", reason));
    }
    let limit = |number: usize| if number == 0 { usize::MAX } else { number };
    Ok(match is_fair {
        true => RequestLimits { is_fair, reads, writes },
        false => RequestLimits { is_fair, reads: limit(reads), writes: limit(writes) },
    })
}

fn number(flags: &impl FlagValues, name: &'static str) -> Result<Option<usize>, FlagError> {
    let Some(value) = flags.text(name) else { return Ok(None) };
    let number = value.parse::<u32>().ok().and_then(|number| usize::try_from(number).ok());
    number.map(Some).ok_or_else(|| FlagError::new(name, value, "expected a number of at least 0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::TestFlags;

    #[test]
    fn zero_is_no_limit_and_priority_levels_need_one() {
        let read = |flags: &[(&'static str, &'static str)]| {
            request_limits(&TestFlags(flags.to_vec()))
                .map(|limits| (limits.is_fair, limits.reads, limits.writes))
        };
        assert_eq!(read(&[]), Ok((true, 400, 200)));
        assert_eq!(read(&[(READS, "20"), (WRITES, "0")]), Ok((true, 20, 0)));
        assert_eq!(read(&[(FAIR, "false"), (WRITES, "0")]), Ok((false, 400, usize::MAX)));
        assert!(read(&[(READS, "0"), (WRITES, "0")]).is_err());
        assert!(read(&[(READS, "-1")]).is_err());
        assert!(read(&[(FAIR, "perhaps")]).is_err());
    }
}
