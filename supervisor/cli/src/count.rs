//! Numbers as people write them on the command line. Sizes and times, which have units, are beside this.

use std::str::FromStr;

/// Parses `20`.
pub(crate) fn parse_count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "write a whole number, such as 20".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_told_what_one_looks_like() {
        assert_eq!(parse_count("20"), Ok(20_u64));
        for bad in ["", "x", "1.5", "99999999999999999999999"] {
            let told = parse_count::<u64>(bad).unwrap_err();
            assert!(told.contains("whole number"), "{bad}: {told}");
        }
    }
}
