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

/// A size for people: in the largest unit of which there is one, with a digit behind the point.
pub(crate) fn format_size(bytes: u64) -> String {
    let binary = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let unit = binary.into_iter().find(|(factor, _)| bytes >= *factor);
    match unit {
        Some((factor, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(factor);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_one_digit_behind_the_point() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            ((1 << 30) - 1, "1023.9 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(format_size(bytes), shown);
        }
    }

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
