//! Sizes as people write them, in bytes.

/// Units and what they multiply by. Without `i` they are decimal, as the standard has it.
const UNITS: &[(&str, u64)] = &[
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
    ("", 1),
];

/// Parses `512MiB`, `10mb`, `4096`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let split = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    match (number.parse::<u64>(), known) {
        (Ok(number), Some((_, factor))) => number
            .checked_mul(*factor)
            .ok_or_else(|| format!("{text} is too large")),
        _ => Err(
            "write a whole number and a unit, such as 512MiB or 10MB; without a unit it is bytes"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_what_they_say() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("10mb"), Ok(10_000_000));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("0"), Ok(0));
        for bad in ["", "MiB", "1.5GiB", "-1", "10 parsecs", "99999999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
