//! The bytes that decide everything that is left open: when something happens, to whom, and what.

/// A script. Where it is over, nothing happens any more but what follows by itself.
#[derive(Debug)]
pub(crate) struct Script {
    bytes: Vec<u8>,
    at: usize,
}

impl Script {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            at: 0,
        }
    }

    /// The next byte.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// The next byte, or 0.
    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// A choice among `count`; 0 where there is none.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// One of these, if there is any.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = self.pick(all.len());
        all.get(at).copied()
    }
}
