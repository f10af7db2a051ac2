//! Reads the formats of control files: lists of keys and numbers, and lines of fields. Pure.
//!
//! Neighbours: `usage`, `counters` and `state` know which keys mean what.

/// The number of one key in a file of `key number` lines; null when the kernel does not list it.
pub(crate) fn number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.parse().ok()).flatten()
    })
}

/// The number of one field in a line of `field=number`.
pub(crate) fn field(line: &str, name: &str) -> Option<u64> {
    line.split_ascii_whitespace().find_map(|field| {
        let (key, value) = field.split_once('=')?;
        (key == name).then(|| value.parse().ok()).flatten()
    })
}

/// A file of one number; null for `max` as well.
pub(crate) fn single(text: &str) -> Option<u64> {
    text.trim_end_matches('\n').parse().ok()
}

/// The process numbers of `cgroup.procs`. Those of processes outside the caller's pid namespace
/// are all 0, which names nobody, and are left out.
pub(crate) fn processes(text: &str) -> Vec<u32> {
    let numbers = text.lines().filter_map(|line| line.parse().ok());
    numbers.filter(|pid| *pid != 0).collect()
}

/// How many processes of `cgroup.procs` are outside the caller's pid namespace.
pub(crate) fn hidden_processes(text: &str) -> usize {
    text.lines().filter(|line| *line == "0").count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_taken_whole() {
        let text = "oom 1\noom_kill 2\noom_group_kill 3\n";
        assert_eq!(number(text, "oom"), Some(1));
        assert_eq!(number(text, "oom_kill"), Some(2));
        assert_eq!(number(text, "kill"), None);
        assert_eq!(number("oom max\n", "oom"), None);
        assert_eq!(number("oom\n", "oom"), None);
    }

    #[test]
    fn fields_are_taken_whole() {
        let line = "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0";
        assert_eq!(field(line, "rbytes"), Some(10));
        assert_eq!(field(line, "bytes"), None);
    }

    #[test]
    fn no_number_is_null() {
        assert_eq!(single("17\n"), Some(17));
        assert_eq!(single("max\n"), None);
        assert_eq!(single(""), None);
    }

    #[test]
    fn processes_that_cannot_be_named_are_left_out() {
        assert_eq!(processes("0\n12\n0\n7\n"), [12, 7]);
        assert!(processes("").is_empty());
        assert_eq!(hidden_processes("0\n12\n0\n7\n10\n"), 2);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[ -~\n]{0,80}") {
            number(&text, "oom");
            field(&text, "rbytes");
            single(&text);
            processes(&text);
        }

        #[test]
        fn what_is_listed_is_found(
            pairs in proptest::collection::btree_map("[a-z_]{1,12}", any::<u64>(), 0..12),
        ) {
            let lines = pairs.iter().map(|(key, value)| format!("{key} {value}\n"));
            let text: String = lines.collect();
            for (key, value) in &pairs {
                prop_assert_eq!(number(&text, key), Some(*value));
            }
        }
    }
}
