//! Which of two releases is the newer one, by the rules of Semantic Versioning 2.0 (section 11).

use std::cmp::Ordering;

/// A release taken apart; what follows a plus sign does not count.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release<'a> {
    numbers: [u64; 3],
    suffix: Suffix<'a>,
}

/// What follows the numbers. A release without it comes after all that have one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suffix<'a> {
    Pre(Vec<Part<'a>>),
    None,
}

/// A part of a suffix: numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Word(&'a str),
}

/// Compares two releases; `None` if one of them is no release.
pub(crate) fn compare(one: &str, other: &str) -> Option<Ordering> {
    Some(parse(one)?.cmp(&parse(other)?))
}

fn parse(text: &str) -> Option<Release<'_>> {
    let text = text.split_once('+').map_or(text, |(release, _)| release);
    let (numbers, suffix) = match text.split_once('-') {
        Some((numbers, suffix)) => (numbers, Suffix::Pre(parse_suffix(suffix)?)),
        None => (text, Suffix::None),
    };
    let mut parts = numbers.split('.').map(number);
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts
        .next()
        .is_none()
        .then_some(Release { numbers, suffix })
}

fn parse_suffix(suffix: &str) -> Option<Vec<Part<'_>>> {
    let part = |part: &'_ str| !part.is_empty();
    let parts: Vec<&str> = suffix.split('.').collect();
    parts.iter().copied().all(part).then(|| {
        let parts = parts.into_iter();
        parts
            .map(|part| number(part).map_or(Part::Word(part), Part::Number))
            .collect()
    })
}

/// A number of digits alone: `parse` would take a sign as well.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each older than all that follow it.
    const IN_ORDER: &[&str] = &[
        "0.0.9",
        "0.1.0-1",
        "0.1.0-2",
        "0.1.0-10",
        "0.1.0-alpha",
        "0.1.0-alpha.1",
        "0.1.0-alpha.beta",
        "0.1.0-beta",
        "0.1.0-beta.2",
        "0.1.0-beta.11",
        "0.1.0-rc-1",
        "0.1.0",
        "0.1.1",
        "0.2.0",
        "0.10.0",
        "1.0.0-rc.1",
        "1.0.0",
        "18446744073709551615.0.0",
    ];

    #[test]
    fn releases_are_in_their_order() {
        for (i, one) in IN_ORDER.iter().enumerate() {
            for (j, other) in IN_ORDER.iter().enumerate() {
                assert_eq!(compare(one, other), Some(i.cmp(&j)), "{one} and {other}");
            }
        }
        assert_eq!(compare("1.0.0+a", "1.0.0+b"), Some(Ordering::Equal));
    }

    #[test]
    fn what_is_no_release_has_no_order() {
        for text in [
            "",
            "1",
            "1.0",
            "1.0.0.0",
            "1.0.x",
            "+1.0.0",
            "1.+0.0",
            "1.0.0-",
            "1.0.0-a..b",
            "v1.0.0",
            "18446744073709551616.0.0",
        ] {
            assert_eq!(compare(text, "1.0.0"), None, "{text}");
        }
    }
}
