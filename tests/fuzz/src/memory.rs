//! How much memory a decoder takes for what it was given.

/// What a decoder may take for each byte that it received, in bytes.
///
/// The widest case is a list of empty strings: one byte of CBOR, or three of JSON, make an element of 24 to 40 bytes, in
/// a vector that is half empty, and beside it for a moment the one that it grew out of.
pub const PER_BYTE_MAX: u64 = 128;

/// What it may take besides: buffers that do not depend on what comes.
pub const BESIDES_MAX: u64 = 256 * 1024;

/// Calls `decode` and returns what it returned.
///
/// # Panics
/// If it takes more memory at once than `received` bytes are worth: it has believed a length that was only claimed.
pub fn bounded<T>(received: usize, decode: impl FnOnce() -> T) -> T {
    let mut decoded = None;
    let taken = allocation_counter::measure(|| decoded = Some(decode())).bytes_max;
    let received = u64::try_from(received).unwrap_or(u64::MAX);
    let allowed = received
        .saturating_mul(PER_BYTE_MAX)
        .saturating_add(BESIDES_MAX);
    assert!(
        taken <= allowed,
        "{taken} bytes of memory for {received} received, at most {allowed} are allowed"
    );
    decoded.expect("`decode` was called")
}
