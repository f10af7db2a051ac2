//! `journal.subscribe`: tells clients what is recorded, as it is. One thread for all of them, which exists
//! while there are any. It waits for nobody: a client without room gets the rest when it has read.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use xioflow_journal::{DomainDir, Query, ReadError};
use xioflow_kernel::Domain;
use xioflow_kernel::views::EventView;
use xioflow_rpc::journal::EventNotice;
use xioflow_rpc::method::Notice;

use crate::client::Client;
use crate::connection::Token;
use crate::limits::STACK_BYTES;

/// Events that are read at once for one client.
const PAGE_LEN: usize = 100;

/// Everybody who wants to know.
#[derive(Debug)]
pub(crate) struct Events {
    /// Rings for new ones, for room, and at the end.
    wake: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    subscribers: HashMap<Token, Subscriber>,
    /// Its thread, running or not collected yet.
    thread: Option<JoinHandle<()>>,
    runs: bool,
    closed: bool,
}

/// One client.
#[derive(Debug, Clone)]
pub(crate) struct Subscriber {
    pub(crate) client: Arc<Client>,
    /// The position that it knows.
    pub(crate) after: i64,
    /// Only those of this operation.
    pub(crate) operation_id: Option<String>,
}

/// Why there is no subscription.
#[derive(Debug)]
pub(crate) enum NotSubscribed {
    /// The connection has one.
    Twice,
    /// The arbiter ends.
    Closed,
    /// The system refused.
    System(io::Error),
}

impl Events {
    /// # Errors
    /// Those of eventfd(2).
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Entries come and go whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a client from now on. `domain` must not be given up before [`Events::close`] has returned.
    pub(crate) fn add(
        self: &Arc<Self>,
        domain: &Arc<Domain>,
        subscriber: Subscriber,
    ) -> Result<(), NotSubscribed> {
        let mut state = self.lock();
        let token = subscriber.client.outgoing.token();
        if state.closed {
            return Err(NotSubscribed::Closed);
        }
        if state.subscribers.contains_key(&token) {
            return Err(NotSubscribed::Twice);
        }
        if !state.runs {
            if let Some(over) = state.thread.take() {
                // It has looked for the last time, and lets go of the domain at this moment.
                over.join().ok();
            }
            let thread = self.start(domain).map_err(NotSubscribed::System)?;
            state.thread = Some(thread);
            state.runs = true;
        }
        state.subscribers.insert(token, subscriber);
        drop(state);
        self.nudge();
        Ok(())
    }

    fn start(self: &Arc<Self>, domain: &Arc<Domain>) -> io::Result<JoinHandle<()>> {
        let commits = watch_commits(domain)?;
        let (events, domain) = (Arc::clone(self), Arc::clone(domain));
        thread::Builder::new()
            .name("xioflow-events".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || events.run(&domain, &commits))
    }

    /// Whether a connection has a subscription.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.lock().subscribers.contains_key(&token)
    }

    /// Has everybody looked after again.
    pub(crate) fn nudge(&self) {
        // It fails only when the counter is full, and then the thread is awake already.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    /// Tells nobody any more. The thread is gone on return.
    pub(crate) fn close(&self) {
        let thread = {
            let mut state = self.lock();
            state.closed = true;
            state.subscribers.clear();
            state.thread.take()
        };
        self.nudge();
        if let Some(thread) = thread {
            // A panic would have ended the process.
            thread.join().ok();
        }
    }

    fn run(&self, domain: &Domain, commits: &OwnedFd) {
        loop {
            // Forgotten before the look, so that what comes in between wakes again.
            forget(&self.wake);
            forget(commits);
            let Some(subscribers) = self.present() else {
                return;
            };
            for subscriber in subscribers {
                self.tell(domain, subscriber);
            }
            let mut polled = [
                PollFd::new(&self.wake, PollFlags::IN),
                PollFd::new(commits, PollFlags::IN),
            ];
            // An interrupted wait only looks again.
            poll(&mut polled, None).ok();
        }
    }

    /// Those whose connection is there; none if that is nobody, and the thread is to end.
    fn present(&self) -> Option<Vec<Subscriber>> {
        let mut state = self.lock();
        state
            .subscribers
            .retain(|_, it| !it.client.outgoing.is_closed());
        if state.subscribers.is_empty() {
            state.runs = false;
            return None;
        }
        Some(state.subscribers.values().cloned().collect())
    }

    /// Tells one what it does not know, as far as it has room.
    fn tell(&self, domain: &Domain, mut subscriber: Subscriber) {
        let before = subscriber.after;
        let told = tell_all(domain, &mut subscriber);
        if told.is_err() {
            // What cannot be told must not look as if nothing had happened.
            subscriber.client.outgoing.fail();
        }
        if subscriber.after != before
            && let Some(known) = self
                .lock()
                .subscribers
                .get_mut(&subscriber.client.outgoing.token())
        {
            known.after = subscriber.after;
        }
    }
}

fn tell_all(domain: &Domain, subscriber: &mut Subscriber) -> Result<(), ReadError> {
    let of = subscriber.operation_id.clone();
    let outgoing = &subscriber.client.outgoing;
    while !outgoing.is_full() && !outgoing.is_closed() {
        let page = domain
            .journal()
            .events(subscriber.after, of.as_deref(), Some(PAGE_LEN))?;
        let is_last = page.len() < PAGE_LEN;
        for event in page {
            // One more may stand above what is full; the loop rings when there is room.
            if outgoing.is_full() {
                return Ok(());
            }
            subscriber.after = event.seq;
            let event = serde_json::to_value(EventView::from(event)).unwrap_or_default();
            if !outgoing.notify(Notice::Event, EventNotice { event }) {
                outgoing.fail();
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
    }
    Ok(())
}

/// A descriptor that is readable after a commit: the owner touches its lock file then (inotify(7)).
fn watch_commits(domain: &Domain) -> io::Result<OwnedFd> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let lock = DomainDir::new(domain.folder())?.lock();
    inotify::add_watch(&watch, lock, WatchFlags::ATTRIB)?;
    Ok(watch)
}

fn forget(waker: &OwnedFd) {
    let mut bytes = [0; 4096];
    // A counter is read at once; of notes there may be more.
    while rustix::io::read(waker, &mut bytes).is_ok_and(|len| len == bytes.len()) {}
}
