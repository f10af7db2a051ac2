//! `logs --both`: both streams in the order in which they were read, each line with a mark.

use xioflow_kernel::journal::{OperationStatus, Query, Reader, Stream};
use xioflow_kernel::{Extent, OutputOrder, OutputReader};

use super::{COPY_LEN, Stop, complain_of_gap, conclude_stored, incomplete, put};
use crate::commands::operation;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output;

/// Prints both streams of a finished operation.
pub(super) fn print(reader: &Reader, operation_id: &str) -> Result<Code, Stop> {
    if operation(reader, operation_id)?.status != OperationStatus::Done {
        return Err(Stop::from(
            Failure::new(
                "unfinished",
                Code::No,
                format!("the order of the output of {operation_id} is recorded when it has ended"),
            )
            .hint("`xioflow logs --follow` prints one stream while it runs"),
        ));
    }
    let artifacts = reader.dir().artifacts();
    let open = |stream| OutputReader::open(reader, &artifacts, operation_id, stream);
    let outputs = [open(Stream::Stdout)?, open(Stream::Stderr)?];
    let recorded = reader.output_order(operation_id)?;
    let order = recorded.as_deref().and_then(OutputOrder::decode);
    let mut both = Both {
        outputs,
        printed: [0; 2],
        line_of: None,
    };
    both.print_in(order.as_ref())?;
    Ok(Code::Ok)
}

struct Both {
    outputs: [OutputReader; 2],
    printed: [u64; 2],
    /// The stream whose line is not ended yet.
    line_of: Option<Stream>,
}

impl Both {
    fn print_in(&mut self, order: Option<&OutputOrder>) -> Result<(), Stop> {
        for (stream, len) in order.map_or(&[][..], OutputOrder::runs) {
            self.copy(*stream, self.printed[index(*stream)].saturating_add(*len))?;
        }
        let mut left = Vec::new();
        for stream in [Stream::Stdout, Stream::Stderr] {
            if self.printed[index(stream)] < self.outputs[index(stream)].len()? {
                left.push(stream);
            }
        }
        if left.len() > 1 || order.is_some_and(OutputOrder::is_cut) {
            output::complain("the order of what follows was not recorded; stdout comes first");
        }
        left.into_iter()
            .try_for_each(|stream| self.copy(stream, u64::MAX))?;
        self.end_line()?;
        self.outputs.iter().try_for_each(conclude_stored)
    }

    /// Copies one stream up to an offset.
    fn copy(&mut self, stream: Stream, to: u64) -> Result<(), Stop> {
        let mut buffer = vec![0; COPY_LEN];
        loop {
            let output = &self.outputs[index(stream)];
            let at = self.printed[index(stream)];
            let extent = if at < to {
                output.extent(at)?
            } else {
                Extent::End
            };
            match extent {
                Extent::End => return Ok(()),
                Extent::Missing { to: end } => {
                    if let Some(error) = output.spill_error() {
                        return Err(Stop::from(incomplete(error)));
                    }
                    self.end_line()?;
                    complain_of_gap(stream, at, end.min(to));
                    self.printed[index(stream)] = end.min(to);
                }
                Extent::Stored { .. } => {
                    let wanted = usize::try_from(to - at).unwrap_or(COPY_LEN).min(COPY_LEN);
                    let len = output.read_at(at, &mut buffer[..wanted])?;
                    self.printed[index(stream)] += len as u64;
                    self.write(stream, &buffer[..len])?;
                }
            }
        }
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Stop> {
        if self.line_of.is_some_and(|other| other != stream) {
            self.end_line()?;
        }
        let mut marked = Vec::with_capacity(bytes.len() + 64);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line_of.is_none() {
                marked.extend_from_slice(mark(stream));
            }
            marked.extend_from_slice(line);
            self.line_of = (!line.ends_with(b"\n")).then_some(stream);
        }
        put(Stream::Stdout, &marked)
    }

    /// A line that the other stream interrupts is ended here; it goes on with a mark of its own.
    fn end_line(&mut self) -> Result<(), Stop> {
        match self.line_of.take() {
            Some(_) => put(Stream::Stdout, b"\n"),
            None => Ok(()),
        }
    }
}

fn mark(stream: Stream) -> &'static [u8] {
    match stream {
        Stream::Stdout => b"out| ",
        Stream::Stderr => b"err| ",
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}
