//! Just enough of elf(5) to tell whether a program needs anything of the system but its kernel.

/// Program header types of elf(5).
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;

/// What a program asks of the system before its first instruction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// Nothing.
    Freestanding,
    /// A loader, and libraries through it.
    Dynamic,
    /// It is no 64-bit little-endian ELF file.
    Unknown,
}

/// Reads the program headers.
pub(crate) fn linkage(program: &[u8]) -> Linkage {
    match segment_types(program) {
        None => Linkage::Unknown,
        Some(types)
            if types
                .iter()
                .any(|kind| matches!(*kind, PT_DYNAMIC | PT_INTERP)) =>
        {
            Linkage::Dynamic
        }
        Some(_) => Linkage::Freestanding,
    }
}

fn segment_types(program: &[u8]) -> Option<Vec<u32>> {
    /// Magic, then class 2 (64 bits) and data 1 (little-endian).
    const IDENTITY: &[u8] = b"\x7fELF\x02\x01";
    if !program.starts_with(IDENTITY) {
        return None;
    }
    let offset = u64::from_le_bytes(*program.get(32..)?.first_chunk()?);
    let entry_len = usize::from(u16::from_le_bytes(*program.get(54..)?.first_chunk()?));
    let count = usize::from(u16::from_le_bytes(*program.get(56..)?.first_chunk()?));
    let start = usize::try_from(offset).ok()?;
    (0..count)
        .map(|index| {
            let header = program.get(start.checked_add(index * entry_len)?..)?;
            Some(u32::from_le_bytes(*header.first_chunk()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_test_needs_a_loader() {
        let own = std::fs::read("/proc/self/exe").expect("a test can read itself");
        assert_eq!(linkage(&own), Linkage::Dynamic);
    }

    #[test]
    fn what_is_no_program_is_unknown() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01"] {
            assert_eq!(linkage(bytes), Linkage::Unknown);
        }
    }

    #[test]
    fn a_header_without_segments_needs_nothing() {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(linkage(&bytes), Linkage::Freestanding);
    }
}
