//! Following an operation that somebody else submitted: its output from the first byte on, and its
//! result. `flight` knows who waits, `output/feeds` who sees; nothing here touches the operation.

use std::io;
use std::sync::{Arc, Weak};

use xioflow_journal::Query;

use super::DEFAULT_MAX_OUTPUT_BYTES;
use super::admit::recorded_result;
use super::handle::Canceller;
use crate::backend::Backend;
use crate::control::Control;
use crate::domain::Inner;
use crate::error::{ExecuteError, NotActive};
use crate::flight::{Flight, Joined};
use crate::output::{Feed, Owed, Subscription, subscribe};
use crate::remote::{RemoteAttachment, frames};
use crate::result::{OperationResult, Reuse};

/// An operation in flight, as somebody has it who did not submit it; see [`crate::Domain::attach`].
///
/// It counts among those who wait for the operation ([`crate::InFlight::joiners`]) until it is
/// dropped or has been waited for, and keeps the domain open as long. The operation never waits for
/// it, and is never stopped through it.
///
/// # Examples
/// ```
/// # let stage = xioflow_kit::Stage::new();
/// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
/// # let domain = options.open(stage.domain())?;
/// use std::sync::mpsc;
/// use xioflow_kernel::{Command, ExecuteError};
///
/// let (tell, told) = mpsc::channel();
/// let server = domain.operation(Command::new("/bin/sleep").arg("600"))?.id("server");
/// let server = server.when_active(move |active| drop(tell.send(active))).start()?;
/// told.recv()?;
///
/// let mut attached = domain.attach("server")?;
/// let output = attached.take_subscription();
/// let printer = std::thread::spawn(move || while output.next_piece().is_some() {});
/// attached.canceller().cancel()?; // it has seen enough; the server goes on
/// assert!(matches!(attached.wait(), Err(ExecuteError::JoinAbandoned { .. })));
/// printer.join().expect("no panic");
///
/// server.canceller().cancel()?;
/// server.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Attachment {
    followed: Followed,
    control: Arc<Control>,
    subscription: Subscription,
    max_output_bytes: usize,
}

/// Where it is executed.
#[derive(Debug)]
enum Followed {
    Here(Here),
    /// By an arbiter.
    There(Box<RemoteAttachment>),
}

/// What is known of an operation of this process. It is left when this is dropped.
#[derive(Debug)]
struct Here {
    inner: Arc<Inner>,
    flight: Arc<Flight>,
    operation_id: String,
    control: Arc<Control>,
    /// Only the operation holds it, so that the subscription ends with that.
    feed: Weak<Feed>,
}

impl Attachment {
    pub(crate) fn new(backend: &Backend, operation_id: &str) -> Result<Self, NotActive> {
        let control = Arc::new(Control::new().map_err(system("make an eventfd"))?);
        control.set_operation(operation_id);
        control.set_joined(true);
        let (followed, subscription) = match backend {
            Backend::Own(inner) => {
                let (here, subscription) = Here::new(inner, operation_id, &control)?;
                (Followed::Here(here), subscription)
            }
            Backend::Attached(attached) => {
                let (pipe, frames) = frames().map_err(system("make a pipe for the output"))?;
                let there = RemoteAttachment::new(attached, operation_id, &pipe)?;
                let subscription = Subscription::of_frames(frames, Arc::clone(&control));
                (Followed::There(Box::new(there)), subscription)
            }
        };
        Ok(Self {
            followed,
            control,
            subscription,
            max_output_bytes: DEFAULT_MAX_OUTPUT_BYTES,
        })
    }

    /// Sets how much of each output stream the result holds, in bytes; 10 MiB by default, whatever
    /// the submission asked for.
    #[must_use]
    pub fn max_output_bytes(mut self, limit: usize) -> Self {
        self.max_output_bytes = limit;
        self
    }

    /// The operation's id.
    #[must_use]
    pub fn operation_id(&self) -> &str {
        match &self.followed {
            Followed::Here(here) => &here.operation_id,
            Followed::There(there) => there.operation_id(),
        }
    }

    /// The Run that the operation belongs to.
    #[must_use]
    pub fn run_id(&self) -> &str {
        match &self.followed {
            Followed::Here(here) => &here.flight.run_id,
            Followed::There(there) => there.run_id(),
        }
    }

    /// Its output: first a [`crate::Piece::Gap`] from 0 for each stream that has printed already, to be
    /// read by [`Subscription::read_gap`], then what comes, without a hole and without an overlap.
    #[must_use]
    pub fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Takes the subscription, for another thread than the one that waits. What is left here is at
    /// its end.
    #[must_use]
    pub fn take_subscription(&mut self) -> Subscription {
        let ended = Subscription::ended(Arc::clone(&self.control));
        std::mem::replace(&mut self.subscription, ended)
    }

    /// Gives a handle that ends the waiting from any thread. However it is used, the operation goes
    /// on; [`crate::Domain::cancel`] stops it.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller {
            control: Arc::clone(&self.control),
        }
    }

    /// Waits for its result, which is then given as to a submission that joined it
    /// ([`Reuse::JoinedInFlight`]), but nothing of that is recorded.
    ///
    /// # Errors
    /// [`ExecuteError::JoinAbandoned`] after [`Attachment::canceller`] was used;
    /// [`ExecuteError::Refused`] if the operation was refused before anything of it ran;
    /// [`ExecuteError::Unrecorded`] with its result, if that could not be recorded; else why the
    /// record cannot be read.
    pub fn wait(self) -> Result<OperationResult, ExecuteError> {
        match self.followed {
            Followed::Here(here) => here.wait(self.max_output_bytes),
            Followed::There(there) => there.wait(&self.control, self.max_output_bytes),
        }
    }
}

fn system(act: &'static str) -> impl FnOnce(io::Error) -> NotActive {
    move |source| NotActive::System { act, source }
}

impl Here {
    fn new(
        inner: &Arc<Inner>,
        operation_id: &str,
        control: &Arc<Control>,
    ) -> Result<(Self, Subscription), NotActive> {
        let flight = inner.active(operation_id)?;
        let (sender, subscription) = subscribe(Arc::clone(control), Owed::WhatIsStored);
        let feed = Arc::new(sender);
        let sender = Arc::downgrade(&feed);
        flight.enter(control);
        flight.feeds.attach(feed);
        let here = Self {
            inner: Arc::clone(inner),
            flight,
            operation_id: operation_id.to_owned(),
            control: Arc::clone(control),
            feed: sender,
        };
        Ok((here, subscription))
    }

    fn wait(self, max_output_bytes: usize) -> Result<OperationResult, ExecuteError> {
        let operation_id = self.operation_id.clone();
        if self.flight.wait(&self.control) == Joined::Abandoned {
            return Err(ExecuteError::JoinAbandoned { operation_id });
        }
        let recorded = self.inner.journal.operation(&operation_id)?;
        let recorded = recorded.ok_or(ExecuteError::Refused { operation_id })?;
        let reused = Reuse::JoinedInFlight;
        recorded_result(&self.inner, recorded, max_output_bytes, reused)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.flight.leave(&self.control);
        // Whoever took the subscription gets what waits in it, and then its end.
        if let Some(feed) = self.feed.upgrade() {
            self.flight.feeds.remove(&feed);
        }
        self.control.finish();
    }
}
