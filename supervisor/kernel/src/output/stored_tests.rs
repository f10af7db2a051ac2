//! Stored streams read back as they were printed, whatever is missing and wherever the rest stands.

use proptest::prelude::*;

use super::*;
use crate::output::head_tail::HeadTail;

fn letters(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| b'a' + u8::try_from(at % 26).unwrap())
        .collect()
}

/// A stream of `bytes` of which `gap` is not stored, with its beginning in a file or not.
fn stored(bytes: &[u8], gap: Option<Gap>, in_file: bool, folder: &Path) -> Output {
    let at = |offset: u64| usize::try_from(offset).unwrap();
    let (head, tail) = match gap {
        None => (bytes, &[][..]),
        Some(gap) => (&bytes[..at(gap.from)], &bytes[at(gap.to)..]),
    };
    let mut output = Output {
        total_bytes: bytes.len() as u64,
        gap,
        ..silent(Stream::Stdout)
    };
    if in_file {
        std::fs::write(folder.join("out"), head).unwrap();
        output.artifact = Some("out".to_owned());
        output.content = gap.map(|_| tail.to_vec());
    } else {
        output.content = Some([head, tail].concat());
    }
    output
}

fn gap_in(len: usize, one: prop::sample::Index, other: prop::sample::Index) -> Option<Gap> {
    let (one, other) = (one.index(len + 1) as u64, other.index(len + 1) as u64);
    (one != other).then(|| Gap {
        from: one.min(other),
        to: one.max(other),
    })
}

proptest! {
    #[test]
    fn a_whole_stream_reads_back_as_it_was_kept(len in 0usize..5000, limit in 0usize..3000, in_file: bool) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = letters(len);
        let mut output = stored(&bytes, None, in_file, folder.path());
        let mut live = HeadTail::new(limit);
        live.push(&bytes);
        prop_assert_eq!(read_back(&mut output, folder.path(), limit), live.finish());
        prop_assert_eq!(output.spill_error, None);
    }

    /// Every stored byte at its own offset, nothing at the missing ones, in pieces of any length.
    #[test]
    fn every_offset_has_its_byte_or_none(
        len in 1usize..2000, one: prop::sample::Index, other: prop::sample::Index,
        in_file: bool, piece in 1usize..700,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = letters(len);
        let gap = gap_in(len, one, other);
        let output = stored(&bytes, gap, in_file, folder.path());
        let reader = OutputReader::recorded(output, folder.path()).unwrap();
        let mut read = vec![None; len];
        let mut at = 0;
        loop {
            match reader.extent(at).unwrap() {
                Extent::End => break,
                Extent::Missing { to } => at = to,
                Extent::Stored { to } => {
                    let mut buffer = vec![0; piece];
                    let len = reader.read_at(at, &mut buffer).unwrap();
                    prop_assert!(len > 0 && at + len as u64 <= to);
                    for byte in &buffer[..len] {
                        read[usize::try_from(at).unwrap()] = Some(*byte);
                        at += 1;
                    }
                }
            }
        }
        for (at, found) in read.into_iter().enumerate() {
            let missing = gap.is_some_and(|gap| (gap.from..gap.to).contains(&(at as u64)));
            prop_assert_eq!(found, (!missing).then_some(bytes[at]));
        }
    }

    /// Around a gap: a beginning, a marker with the exact number, an end, within the limit.
    #[test]
    fn what_is_missing_is_counted_in_the_text(
        len in 1usize..3000, one: prop::sample::Index, other: prop::sample::Index,
        in_file: bool, limit in 80usize..4000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = letters(len);
        let Some(gap) = gap_in(len, one, other) else { return Ok(()) };
        let mut output = stored(&bytes, Some(gap), in_file, folder.path());
        let kept = read_back(&mut output, folder.path(), limit);
        prop_assert!(kept.truncated && kept.bytes.len() <= limit);
        let text = String::from_utf8(kept.bytes).unwrap();
        let (head, rest) = text.split_once("\n[... truncated ").expect("a marker");
        let (missing, tail) = rest.split_once(" bytes ...]\n").expect("its end");
        prop_assert!(bytes.starts_with(head.as_bytes()) && bytes.ends_with(tail.as_bytes()));
        prop_assert!(head.len() as u64 <= gap.from && (len - tail.len()) as u64 >= gap.to);
        prop_assert_eq!(head.len() + missing.parse::<usize>().unwrap() + tail.len(), len);
    }
}

fn hash(bytes: &[u8]) -> Option<String> {
    use sha2::Digest;
    Some(super::super::hex(&sha2::Sha256::digest(bytes)))
}

/// The hash of an output as [`stored`] stores it: of its file, or of what is in the journal.
fn hash_of(output: &Output, folder: &Path) -> Option<String> {
    match &output.artifact {
        Some(name) => hash(&std::fs::read(folder.join(name)).unwrap()),
        None => hash(output.content.as_deref().unwrap_or_default()),
    }
}

proptest! {
    /// Sound bytes pass wherever they are stored, and one that has changed is noticed by whoever
    /// reads all of what the hash is over.
    #[test]
    fn a_byte_that_has_changed_is_noticed(
        len in 1usize..3000, one: prop::sample::Index, other: prop::sample::Index,
        in_file: bool, changed: prop::sample::Index,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = letters(len);
        let gap = gap_in(len, one, other);
        let mut output = stored(&bytes, gap, in_file, folder.path());
        output.sha256 = hash_of(&output, folder.path());
        read_back(&mut output, folder.path(), 10_000);
        prop_assert_eq!(&output.spill_error, &None);

        let mut content = match &output.artifact {
            Some(name) => std::fs::read(folder.path().join(name)).unwrap(),
            None => output.content.clone().unwrap(),
        };
        if content.is_empty() {
            return Ok(());
        }
        let at = changed.index(content.len());
        content[at] ^= 1;
        match &output.artifact {
            Some(name) => std::fs::write(folder.path().join(name), content).unwrap(),
            None => output.content = Some(content),
        }
        let kept = read_back(&mut output, folder.path(), 10_000);
        prop_assert!(output.spill_error.unwrap().contains("other bytes"));
        prop_assert!(kept.truncated, "what has changed is shown");
    }
}

#[test]
fn a_part_of_a_stream_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let mut output = stored(&letters(5000), None, true, folder.path());
    output.sha256 = hash(b"something else");
    let reader = OutputReader::recorded(output, folder.path()).unwrap();
    for part in [0..4999, 1..5000] {
        let mut check = OutputCheck::default();
        check.take(
            part.start,
            &vec![0; usize::try_from(part.end - part.start).unwrap()],
        );
        check.conclude(&reader).unwrap();
    }
    let mut check = OutputCheck::default();
    check.take(0, &[0; 5000]);
    assert!(matches!(
        check.conclude(&reader),
        Err(OutputError::Changed { .. })
    ));
}

#[test]
fn a_file_that_is_shorter_than_its_record_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut output = stored(&letters(5000), None, true, folder.path());
    output.total_bytes = 6000;
    let kept = read_back(&mut output, folder.path(), 10_000);
    assert!(output.spill_error.unwrap().contains("ends at byte 5000"));
    assert!(kept.truncated);
}

/// Whoever reads on until the end must not read for ever.
#[test]
fn a_journal_that_holds_less_than_it_says_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut output = stored(b"one\ntwo\n", None, false, folder.path());
    output.total_bytes = 100;
    let reader = OutputReader::recorded(output.clone(), folder.path()).unwrap();
    let read = reader.read_at(8, &mut [0; 10]);
    assert!(matches!(read, Err(OutputError::Record { at: 8 })));
    assert!(reader.lines(1, 5).is_err() && reader.tail(2).is_err());
    read_back(&mut output, folder.path(), 10_000);
    assert!(output.spill_error.unwrap().contains("up to byte 8 only"));
}

#[test]
fn of_pruned_output_the_end_is_kept_that_is_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = letters(1000);
    let gap = Some(Gap { from: 300, to: 900 });
    for (gap, kept) in [(gap, &bytes[900..]), (None, &[][..])] {
        let mut output = stored(&bytes, gap, true, folder.path());
        output.pruned_at_ms = Some(1);
        std::fs::remove_file(folder.path().join("out")).unwrap();
        let read = read_back(&mut output, folder.path(), 5000);
        assert!(read.truncated && read.bytes.ends_with(kept), "{read:?}");
        assert_eq!(output.spill_error, None, "it is no error that it is gone");
    }
}

/// Whoever can write to the database could have another file shown, or removed, as output.
#[test]
fn a_record_that_leads_out_of_the_folder_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = folder.path().join("artifacts");
    std::fs::create_dir(&artifacts).unwrap();
    let mut output = stored(&letters(10), None, true, folder.path());
    for name in [
        "../out",
        folder.path().join("out").to_str().unwrap(),
        "..",
        "",
    ] {
        output.artifact = Some(name.to_owned());
        let error = OutputReader::recorded(output.clone(), &artifacts).unwrap_err();
        assert!(
            error.to_string().contains("names no file of this folder"),
            "{name:?}: {error}"
        );
    }
}
