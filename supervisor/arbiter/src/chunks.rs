//! Output as news on the connection. Nobody waits for it: what finds no room is left out, and named before
//! anything later of its stream.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use xioflow_journal::Stream;
use xioflow_kernel::Subscription;
use xioflow_rpc::method::Notice;
use xioflow_rpc::operation::{Chunk, Gap};

use crate::client::Pending;
use crate::convert::{index, stream_out};

/// Most bytes in one chunk: base64 makes four of three.
const CHUNK_MAX_BYTES: usize = 48 * 1024;

/// The output of one request.
#[derive(Debug)]
pub(crate) struct Chunks {
    pending: Arc<Pending>,
    /// Of each stream, what was left out and not told yet.
    owed: [Option<Missing>; 2],
}

#[derive(Debug, Clone)]
struct Missing {
    from: u64,
    to: u64,
    why: Option<String>,
}

impl Chunks {
    pub(crate) fn new(pending: Arc<Pending>) -> Self {
        Self {
            pending,
            owed: [None, None],
        }
    }

    /// Bytes that came.
    pub(crate) fn data(&mut self, stream: Stream, offset: u64, bytes: &[u8]) {
        let mut offset = offset;
        for part in bytes.chunks(CHUNK_MAX_BYTES) {
            let end = offset + part.len() as u64;
            if !self.settle(stream) || !self.offer(stream, offset, part) {
                self.owe(stream, offset, end, None);
            }
            offset = end;
        }
    }

    fn offer(&self, stream: Stream, offset: u64, part: &[u8]) -> bool {
        let chunk = Chunk {
            request: self.pending.id().clone(),
            stream: stream_out(stream),
            offset,
            base64: STANDARD.encode(part),
        };
        self.pending.outgoing().offer(Notice::Chunk, chunk)
    }

    /// Bytes that came too fast. They are stored, or it is said why not.
    pub(crate) fn missed(
        &mut self,
        subscription: &Subscription,
        stream: Stream,
        from: u64,
        to: u64,
    ) {
        let why = match subscription.read_gap(stream, to.saturating_sub(1), &mut [0]) {
            Ok(1..) => None,
            Ok(_) => Some("they came too fast and were not stored".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        self.owe(stream, from, to, why);
        self.settle(stream);
    }

    fn owe(&mut self, stream: Stream, from: u64, to: u64, why: Option<String>) {
        let owed = &mut self.owed[index(stream)];
        match owed {
            Some(missing) => {
                missing.to = to;
                missing.why = missing.why.take().or(why);
            }
            none => *none = Some(Missing { from, to, why }),
        }
    }

    /// Tells what was left out; false if there is no room even for that.
    fn settle(&mut self, stream: Stream) -> bool {
        let Some(missing) = self.owed[index(stream)].take() else {
            return true;
        };
        let told = self
            .pending
            .outgoing()
            .offer(Notice::Gap, self.gap(stream, &missing));
        if !told {
            self.owed[index(stream)] = Some(missing);
        }
        told
    }

    fn gap(&self, stream: Stream, missing: &Missing) -> Gap {
        Gap {
            request: self.pending.id().clone(),
            stream: stream_out(stream),
            from: missing.from,
            to: missing.to,
            why: missing.why.clone(),
        }
    }

    /// There is no more: what was left out is told whether there is room or not, as the result is.
    pub(crate) fn end(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(missing) = self.owed[index(stream)].take() {
                let gap = self.gap(stream, &missing);
                self.pending.outgoing().notify(Notice::Gap, gap);
            }
        }
    }
}
