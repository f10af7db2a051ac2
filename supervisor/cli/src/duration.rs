//! Durations as people write them: a number and a unit, or several.

use std::time::Duration;

/// The longest that the record can hold, in milliseconds.
const LONGEST_MS: u128 = i64::MAX as u128;

/// Parses `30s`, `1500ms`, `1h 30m`. A number alone has no unit and is refused: whether it means
/// seconds or milliseconds is a guess that has cost people their builds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text != "0" {
        return Err(format!("say the unit: {text}s or {text}ms"));
    }
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number and a unit, such as 30s or 1h30m"))?;
    if duration.as_millis() > LONGEST_MS {
        return Err("the longest time is 292 million years; leave it out for none".to_owned());
    }
    Ok(duration)
}

/// The shortest time between two looks: each looks at every process.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Parses a time between two looks.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if time < INTERVAL_MIN => Err("the shortest is 100ms".to_owned()),
        time => Ok(time),
    }
}

/// After how long without work a program ends; `None` if never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Idle(pub(crate) Option<Duration>);

/// Parses a duration, or `never`.
pub(crate) fn parse_idle(text: &str) -> Result<Idle, String> {
    match text {
        "never" => Ok(Idle(None)),
        time => parse_duration(time).map(|time| Idle(Some(time))),
    }
}

/// A duration for people: the largest two units, or milliseconds.
pub(crate) fn format_ms(duration_ms: u64) -> String {
    let seconds = duration_ms / 1000;
    match seconds {
        0 => format!("{duration_ms} ms"),
        1..60 => format!("{seconds}.{} s", duration_ms % 1000 / 100),
        60..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_required() {
        assert_eq!(parse_duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert!(parse_duration("30").unwrap_err().contains("30s"));
        assert!(parse_duration("292000000y").is_ok());
        assert!(
            parse_duration("293000000y")
                .unwrap_err()
                .contains("292 million years")
        );
        assert!(parse_duration("soon").is_err());
        assert!(parse_duration("").is_err());
        assert!(parse_duration("-1s").is_err());
    }

    #[test]
    fn never_is_a_time_to_be_idle() {
        assert_eq!(parse_idle("never"), Ok(Idle(None)));
        assert_eq!(parse_idle("5s"), Ok(Idle(Some(Duration::from_secs(5)))));
        assert!(parse_idle("5").is_err());
    }

    #[test]
    fn people_read_two_units_at_most() {
        let shown: Vec<String> = [7, 1250, 61_000, 3_660_000].map(format_ms).into();
        assert_eq!(shown, ["7 ms", "1.2 s", "1 m 1 s", "1 h 1 m"]);
    }
}
