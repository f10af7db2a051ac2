//! Where an ELF file names its dynamic loader: the one thing about it that goes missing in practice,
//! and of which execve(2) says only "no such file", as if the program itself were not there.
//!
//! Reads the native 64-bit layout of elf(5). Anything else is left to the kernel.

/// `e_ident` of a 64-bit little-endian file.
const IDENT: &[u8; 6] = b"\x7fELF\x02\x01";
/// `PT_INTERP`.
const INTERPRETER: u32 = 3;
/// Size of one program header.
const HEADER_LEN: usize = 56;

/// Finds the position and length of the loader's path, as far as the beginning of the file
/// shows it. Linkers put it in the first or second program header.
pub(crate) fn interpreter(head: &[u8]) -> Option<(u64, u64)> {
    if !head.starts_with(IDENT) {
        return None;
    }
    let table = usize::try_from(u64_at(head, 32)?).ok()?;
    let entry_len = usize::from(u16_at(head, 54)?);
    let count = usize::from(u16_at(head, 56)?);
    if entry_len != HEADER_LEN {
        return None;
    }
    head.get(table..)?
        .chunks_exact(HEADER_LEN)
        .take(count)
        .find(|header| u32_at(header, 0) == Some(INTERPRETER))
        .and_then(|header| Some((u64_at(header, 8)?, u64_at(header, 32)?)))
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..)?.first_chunk().copied()
}

fn u16_at(from: &[u8], at: usize) -> Option<u16> {
    bytes(from, at).map(u16::from_le_bytes)
}

fn u32_at(from: &[u8], at: usize) -> Option<u32> {
    bytes(from, at).map(u32::from_le_bytes)
}

fn u64_at(from: &[u8], at: usize) -> Option<u64> {
    bytes(from, at).map(u64::from_le_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The beginning of a program whose second header names `loader`.
    pub(crate) fn program(loader: &str) -> Vec<u8> {
        let mut file = IDENT.to_vec();
        file.resize(64, 0);
        file[32] = 64;
        file[54] = 56;
        file[56] = 2;
        file.resize(64 + 2 * HEADER_LEN, 0);
        let header = 64 + HEADER_LEN;
        file[header] = 3;
        let at = u64::try_from(file.len()).expect("short");
        file[header + 8..header + 16].copy_from_slice(&at.to_le_bytes());
        let len = u64::try_from(loader.len() + 1).expect("short");
        file[header + 32..header + 40].copy_from_slice(&len.to_le_bytes());
        file.extend_from_slice(loader.as_bytes());
        file.push(0);
        file
    }

    #[test]
    fn a_loader_is_found_where_the_header_says() {
        assert_eq!(interpreter(&program("/lib/ld.so")), Some((176, 11)));
        let own = std::fs::read("/proc/self/exe").expect("this test is a file");
        let (at, len) = interpreter(&own[..256]).expect("tests are linked dynamically");
        let at = usize::try_from(at).expect("small");
        let path = &own[at..at + usize::try_from(len).expect("small")];
        assert!(path.starts_with(b"/") && path.ends_with(b"\0"));
    }

    #[test]
    fn what_is_cut_or_foreign_names_none() {
        let whole = program("/lib/ld.so");
        for len in 0..64 + HEADER_LEN {
            assert_eq!(interpreter(&whole[..len]), None);
        }
        assert_eq!(interpreter(b"#!/bin/sh"), None);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(mut head in proptest::collection::vec(any::<u8>(), 6..300)) {
            head[..6].copy_from_slice(IDENT);
            let _answer = interpreter(&head);
        }
    }
}
