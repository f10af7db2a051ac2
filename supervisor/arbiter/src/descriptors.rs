//! The descriptors of a request by what they are for. Each has one owner from here on, and those of a
//! request that is refused are closed with it. None is ever made non-blocking: its flags are shared with
//! the client, and perhaps with the client's terminal.

use std::os::fd::OwnedFd;

use xioflow_rpc::operation::{Descriptor, Output, Stdin};
use xioflow_rpc::refusal::Fault;

use crate::refusal::contradictory;

/// At most one for each purpose.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) output: Option<OwnedFd>,
}

/// What a request says of the descriptors that travel with it.
pub(crate) struct Wanted<'a> {
    pub(crate) named: &'a [Descriptor],
    /// None where there is nothing to be read.
    pub(crate) stdin: Option<&'a Stdin>,
    pub(crate) output: Output,
}

impl Wanted<'_> {
    /// Checks that there is what is needed and nothing else.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let named = |wanted| self.named.iter().filter(|named| **named == wanted).count();
        let [stdin, stdout, stderr, output] = [
            Descriptor::Stdin,
            Descriptor::Stdout,
            Descriptor::Stderr,
            Descriptor::Output,
        ]
        .map(named);
        if [stdin, stdout, stderr, output]
            .iter()
            .any(|count| *count > 1)
        {
            return Err(contradictory("a descriptor is named twice"));
        }
        let reads_one = matches!(
            self.stdin,
            Some(Stdin::Memory | Stdin::Descriptor | Stdin::Stream)
        );
        if reads_one != (stdin == 1) {
            return Err(contradictory(
                "a descriptor `stdin` travels where standard input is one, and only there",
            ));
        }
        let fits = match self.output {
            Output::Descriptors => stdout + stderr > 0 && output == 0,
            Output::Frames => stdout + stderr == 0 && output == 1,
            Output::None | Output::Chunks => stdout + stderr + output == 0,
        };
        match fits {
            true => Ok(()),
            false => Err(contradictory(
                "`stdout` and `stderr` travel where output goes to descriptors, `output` where it goes in frames",
            )),
        }
    }
}

impl Descriptors {
    /// Those that came, by their names.
    pub(crate) fn of(named: &[Descriptor], came: Vec<OwnedFd>) -> Self {
        let mut descriptors = Self::default();
        for (name, descriptor) in named.iter().zip(came) {
            let place = match name {
                Descriptor::Stdin => &mut descriptors.stdin,
                Descriptor::Stdout => &mut descriptors.stdout,
                Descriptor::Stderr => &mut descriptors.stderr,
                Descriptor::Output => &mut descriptors.output,
            };
            *place = Some(descriptor);
        }
        descriptors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every set of names with every way of input and output.
    #[test]
    fn exactly_what_is_needed_may_travel() {
        use Descriptor::{Output as Both, Stderr, Stdin as In, Stdout};
        let all = [In, Stdout, Stderr, Both];
        let inputs = [
            (None, false),
            (Some(Stdin::Null), false),
            (Some(Stdin::Memory), true),
            (Some(Stdin::Descriptor), true),
            (Some(Stdin::Stream), true),
        ];
        for bits in 0..16_usize {
            let has = |which: usize| bits & (1 << which) != 0;
            let named: Vec<_> = (0..4).filter(|it| has(*it)).map(|it| all[it]).collect();
            for (stdin, reads_one) in &inputs {
                for (output, fits) in [
                    (Output::None, bits & 0b1110 == 0),
                    (Output::Chunks, bits & 0b1110 == 0),
                    (Output::Descriptors, (has(1) || has(2)) && !has(3)),
                    (Output::Frames, !has(1) && !has(2) && has(3)),
                ] {
                    let wanted = Wanted {
                        named: &named,
                        stdin: stdin.as_ref(),
                        output,
                    };
                    let expected = fits && *reads_one == has(0);
                    assert_eq!(
                        wanted.check().is_ok(),
                        expected,
                        "{named:?} {stdin:?} {output:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_name_may_be_there_twice() {
        let wanted = Wanted {
            named: &[Descriptor::Stdout, Descriptor::Stdout],
            stdin: None,
            output: Output::Descriptors,
        };
        assert!(wanted.check().is_err());
    }
}
