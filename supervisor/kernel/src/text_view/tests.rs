//! What output looks like as text, and that every byte of it is accounted for.

use proptest::prelude::*;

use super::*;

fn view(bytes: &[u8]) -> (String, u64, u64) {
    let view = text_view(bytes);
    (view.text, view.collapsed_bytes, view.replaced_bytes)
}

fn text(bytes: &[u8]) -> String {
    view(bytes).0
}

#[test]
fn plain_text_is_as_it_was() {
    let plain = "one\n\ttwo ä€😀\n\nlast";
    assert_eq!(view(plain.as_bytes()), (plain.to_owned(), 0, 0));
    assert_eq!(view(b""), (String::new(), 0, 0));
}

#[test]
fn progress_shows_its_last_frame() {
    let mut bytes = Vec::new();
    for step in 0..5000 {
        bytes.extend_from_slice(format!("\r{step}").as_bytes());
    }
    bytes.extend_from_slice(b"\rdone\nOK\n");
    let printed = bytes.len() as u64;
    assert_eq!(view(&bytes), ("done\nOK\n".to_owned(), printed - 8, 0));
}

#[test]
fn a_return_before_a_line_feed_ends_the_line() {
    assert_eq!(view(b"a\r\nb\r\n"), ("a\nb\n".to_owned(), 2, 0));
    assert_eq!(text(b"a\r\r\nb"), "a\nb");
    assert_eq!(text(b"a\n\rb"), "a\nb");
}

#[test]
fn a_frame_without_a_character_replaces_nothing() {
    assert_eq!(text(b"50 %\r"), "50 %");
    assert_eq!(text(b"50 %\r\x1b[32m"), "50 %");
}

#[test]
fn a_shorter_frame_replaces_a_longer_one() {
    assert_eq!(text(b"downloading\rdone\n"), "done\n");
    assert_eq!(text(b"downloading\r           \rok\n"), "ok\n");
}

#[test]
fn erased_and_rewound_lines_are_redrawn() {
    assert_eq!(text(b"old\x1b[2K\x1b[1Gnew\n"), "new\n");
    assert_eq!(text(b"old\r\x1b[K\n"), "\n");
    assert_eq!(text(b"kept\x1b[K\n"), "kept\n");
    assert_eq!(text(b"|\x08/\x08-\x08\\\x08 \n"), " \n");
    assert_eq!(view(b"ab\x08c"), ("ac".to_owned(), 2, 0));
}

#[test]
fn control_is_marked_or_removed_and_counted() {
    let bytes = b"a\0b\x01\xff\x1b[31mred\n";
    assert_eq!(view(bytes), ("a␀b␁\u{fffd}red\n".to_owned(), 0, 8));
    assert_eq!(text(b"\x07\x7f\x0c"), "␇␡␌");
    // A control character beyond ASCII, as two bytes.
    assert_eq!(
        view("a\u{9b}31m".as_bytes()),
        ("a\u{fffd}31m".to_owned(), 0, 2)
    );
    assert_eq!(view(b"\x1b]0;title\x07x\x1b(B"), ("x".to_owned(), 0, 13));
}

#[test]
fn a_sequence_that_is_none_hides_nothing() {
    assert_eq!(text(b"\x1b]oops\nnext\n"), "\nnext\n");
    assert_eq!(text(b"\x1b[12\xffnext"), "\u{fffd}next");
    assert_eq!(text(b"x\x1b"), "x");
    let long = [&b"\x1b]"[..], &[b'y'; 10_000], b"\nend"].concat();
    assert!(text(&long).ends_with("yyy\nend"));
}

#[test]
fn bytes_that_are_no_text_are_what_the_library_makes_of_them() {
    for bytes in [
        &b"\xff\xfe"[..],
        b"a\xe2\x82",
        b"\xe2\x82x",
        b"\xf0\x9f\x98",
        b"\xc0\x80",
        b"\xed\xa0\x80",
    ] {
        assert_eq!(text(bytes), String::from_utf8_lossy(bytes), "{bytes:?}");
    }
    assert_eq!(view(b"a\xe2\x82").2, 2);
}

#[test]
fn a_line_too_long_for_progress_is_ended_by_a_return() {
    let long = vec![b'x'; 3 * line::FRAME_MAX_BYTES];
    let bytes = [&long[..], b"\rnext\r\n"].concat();
    let (text, collapsed, replaced) = view(&bytes);
    assert_eq!(text.len(), long.len() + 1 + 5);
    assert!(text.ends_with("x\nnext\n"));
    assert_eq!((collapsed, replaced), (1, 0));
}

/// A control sequence that rewinds is counted as replaced, so the end of line is a mark for it.
#[test]
fn a_line_too_long_for_progress_is_ended_by_a_rewinding_sequence() {
    let long = vec![b'x'; 2 * line::FRAME_MAX_BYTES];
    let (text, collapsed, replaced) = view(&[&long[..], b"\x1b[1Gnext"].concat());
    assert_eq!(text.len(), long.len() + 1 + 4);
    assert_eq!((collapsed, replaced), (0, 4));
    // Of two returns the one before the next character stands there.
    let (_, collapsed, replaced) = view(&[&long[..], b"\r\x1b[G\rnext"].concat());
    assert_eq!((collapsed, replaced), (1, 3));
}

#[test]
fn pieces_of_a_long_line_make_no_difference() {
    let long = vec![b'x'; 2 * line::FRAME_MAX_BYTES];
    for end in [
        &b"\x08"[..],
        b"\x1b[2K",
        b"\r\x1b[K",
        b"y\x08\x08",
        b"\rnext",
    ] {
        let bytes = [&long[..], end].concat();
        let mut filter = TextFilter::default();
        let mut text = String::new();
        let pieces = bytes.chunks(40_000);
        pieces.for_each(|piece| filter.push(piece, &mut text));
        filter.finish(&mut text);
        let counted = (filter.collapsed_bytes(), filter.replaced_bytes());
        assert!((text, counted.0, counted.1) == view(&bytes), "{end:?}");
    }
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut filter = TextFilter::default();
    let mut text = String::new();
    let mut passed = 0;
    let piece = [b'x'; 10_000];
    for pushed in 1..=1000_usize {
        filter.push(&piece, &mut text);
        passed += text.len();
        text.clear();
        assert!(pushed * piece.len() - passed <= line::FRAME_MAX_BYTES);
    }
}

/// Bytes that are likely to mean something to it.
fn lively() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        Just(b"\r".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\x08".to_vec()),
        Just(b"\x1b".to_vec()),
        Just(b"\x1b[2K".to_vec()),
        Just(b"\x1b[G".to_vec()),
        Just(b"\x1b]0;".to_vec()),
        Just("€".as_bytes().to_vec()),
        "[a-m;?0-9]{1,3}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(one, 0..40).prop_map(|parts| parts.concat())
}

fn marks(text: &str) -> u64 {
    let is_mark = |letter: &char| matches!(letter, '\u{2400}'..='\u{2421}' | '\u{fffd}');
    text.chars().filter(is_mark).count() as u64
}

proptest! {
    /// Each byte is in the text or counted, once; marks are three bytes of our own.
    #[test]
    fn every_byte_is_accounted_for(bytes in lively()) {
        let view = text_view(&bytes);
        // Marks that were printed would count twice.
        prop_assume!(!bytes.windows(2).any(|two| two == b"\xe2\x90" || two == b"\xef\xbf"));
        let own = view.text.len() as u64 - 3 * marks(&view.text);
        prop_assert_eq!(own + view.collapsed_bytes + view.replaced_bytes, bytes.len() as u64);
    }

    #[test]
    fn pieces_make_no_difference(bytes in lively(), cut in 1usize..9) {
        let mut filter = TextFilter::default();
        let mut text = String::new();
        bytes.chunks(cut).for_each(|piece| filter.push(piece, &mut text));
        filter.finish(&mut text);
        let whole = text_view(&bytes);
        prop_assert_eq!(&text, &whole.text);
        prop_assert_eq!(filter.collapsed_bytes(), whole.collapsed_bytes);
        prop_assert_eq!(filter.replaced_bytes(), whole.replaced_bytes);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left(bytes in lively()) {
        let text = text_view(&bytes).text;
        prop_assert!(!text.chars().any(|letter| letter.is_control() && !"\n\t".contains(letter)), "{:?}", text);
    }
}
