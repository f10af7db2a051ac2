//! What requests have submitted or attached to and is not over: how it is stopped from outside, and who
//! still waits for it. `lost` has the rule for those that nobody waits for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use xioflow_journal::Stream;
use xioflow_kernel::{Canceller, NotActive, StopManner, Subscription};
use xioflow_rpc::envelope::Id;

use crate::bell::Bell;
use crate::connection::Token;
use crate::limits::{OPERATIONS_MAX, STOP_GRACE};
use crate::lost::Waiting;
use crate::server::give_back;

/// Whose it is: a request of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) connection: Token,
    pub(crate) request: Id,
}

/// A way to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stop {
    /// Somebody asks for it.
    Asked(StopManner, Duration),
    /// Its client is gone.
    ClientLost,
}

/// One submission or attachment.
#[derive(Debug)]
pub(crate) struct Session {
    key: Key,
    detached: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None before the kernel knows of it.
    canceller: Option<Canceller>,
    /// Stops that came before.
    early: Vec<Stop>,
    /// Where its reader's end is passed on to the command.
    output: Weak<Subscription>,
    /// The operation of another one is waited for.
    joined: bool,
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is set in one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how it is stopped from now on.
    pub(crate) fn has_canceller(&self, canceller: &Canceller) {
        let mut state = self.lock();
        for stop in std::mem::take(&mut state.early) {
            // It has not begun, so nothing of it is over.
            stop.with(canceller).ok();
        }
        state.canceller = Some(canceller.clone());
    }

    /// Says where its output is passed on.
    pub(crate) fn has_output(&self, subscription: &Arc<Subscription>) {
        self.lock().output = Arc::downgrade(subscription);
    }

    /// Stops it, now or as soon as there is something to stop.
    pub(crate) fn stop(&self, stop: Stop) -> Result<(), NotActive> {
        let mut state = self.lock();
        match &state.canceller {
            Some(canceller) => stop.with(canceller),
            None => {
                state.early.push(stop);
                Ok(())
            }
        }
    }

    /// The handle for more than stopping; none before the kernel knows of it.
    pub(crate) fn canceller(&self) -> Option<Canceller> {
        self.lock().canceller.clone()
    }

    /// Tells the command that nobody reads a stream; false where its output is not passed on.
    pub(crate) fn close_stream(&self, stream: Stream) -> bool {
        let output = self.lock().output.upgrade();
        output.is_some_and(|output| {
            output.reader_gone(stream);
            true
        })
    }
}

impl Stop {
    fn with(self, canceller: &Canceller) -> Result<(), NotActive> {
        match self {
            Self::Asked(manner, grace) => canceller.stop(manner, grace),
            Self::ClientLost => canceller.client_lost(STOP_GRACE),
        }
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Sessions {
    bell: Arc<Bell>,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    sessions: HashMap<Key, Entry>,
    /// Those that are over, and whose end is just being told.
    telling: usize,
    waiting: Waiting,
    /// Nothing new is taken.
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    session: Arc<Session>,
    /// None before it is known.
    operation_id: Option<String>,
    /// Whether its connection is there.
    present: bool,
}

/// Why there is no new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSession {
    /// Another one of the connection has that name.
    NameTaken,
    /// There are as many as there can be.
    Full,
    /// The arbiter ends.
    Closed,
}

impl Sessions {
    pub(crate) fn new(bell: Arc<Bell>, client_grace: Duration) -> Self {
        let table = Table {
            sessions: HashMap::new(),
            telling: 0,
            waiting: Waiting::new(client_grace),
            closed: false,
        };
        Self {
            bell,
            table: Mutex::new(table),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing in here can panic between two changes that belong together.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one.
    pub(crate) fn begin(&self, key: Key, detached: bool) -> Result<Arc<Session>, NoSession> {
        let mut table = self.lock();
        if table.closed {
            return Err(NoSession::Closed);
        }
        if table.sessions.len() >= OPERATIONS_MAX {
            return Err(NoSession::Full);
        }
        if table.sessions.contains_key(&key) {
            return Err(NoSession::NameTaken);
        }
        let session = Arc::new(Session {
            key: key.clone(),
            detached,
            state: Mutex::default(),
        });
        let entry = Entry {
            session: Arc::clone(&session),
            operation_id: None,
            present: true,
        };
        table.sessions.insert(key, entry);
        Ok(session)
    }

    /// Says which operation it is. Its client may be gone already.
    pub(crate) fn is_of(&self, session: &Session, operation_id: &str) {
        let mut table = self.lock();
        let Table {
            sessions, waiting, ..
        } = &mut *table;
        let Some(entry) = sessions.get_mut(&session.key) else {
            return;
        };
        entry.operation_id = Some(operation_id.to_owned());
        waiting.enter(operation_id, session.detached);
        if !entry.present {
            waiting.lose(operation_id, Instant::now());
            self.bell.ring();
        }
    }

    /// Says that it waits for the operation of another one. If its client is gone, it does no longer.
    pub(crate) fn has_joined(&self, session: &Session) {
        let table = self.lock();
        session.lock().joined = true;
        if table
            .sessions
            .get(&session.key)
            .is_some_and(|it| !it.present)
        {
            session.stop(Stop::ClientLost).ok();
        }
    }

    /// Ends one: there is its result, or there is none. The end is told by `tell`, after this, so that
    /// whoever hears of it finds it over; but the arbiter does not end before it is told.
    pub(crate) fn end(&self, session: &Session, tell: impl FnOnce()) {
        let mut table = self.lock();
        if let Some(entry) = table.sessions.remove(&session.key)
            && let Some(operation_id) = entry.operation_id
        {
            let now = Instant::now();
            table.waiting.end(&operation_id, entry.present, now);
        }
        give_back(&mut table.sessions);
        table.telling += 1;
        drop(table);
        tell();
        self.lock().telling -= 1;
        self.bell.ring();
    }

    /// The one of a request.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Session>> {
        let table = self.lock();
        table.sessions.get(key).map(|it| Arc::clone(&it.session))
    }

    /// Notes that a connection is gone. Those who only wait for the operation of another one stop waiting.
    pub(crate) fn lose(&self, connection: Token) {
        let mut table = self.lock();
        let Table {
            sessions, waiting, ..
        } = &mut *table;
        let now = Instant::now();
        let its = sessions
            .values_mut()
            .filter(|entry| entry.session.key.connection == connection);
        for entry in its {
            entry.present = false;
            if let Some(operation_id) = &entry.operation_id {
                waiting.lose(operation_id, now);
            }
            if entry.session.lock().joined {
                // Over already, or told so now.
                entry.session.stop(Stop::ClientLost).ok();
            }
        }
    }

    /// Stops what nobody waits for any more.
    pub(crate) fn stop_lost(&self, now: Instant) {
        let mut table = self.lock();
        for operation_id in table.waiting.due(now) {
            let of_it = table
                .sessions
                .values()
                .filter(|entry| entry.operation_id.as_ref() == Some(&operation_id));
            for entry in of_it {
                // One that is over has its result.
                entry.session.stop(Stop::ClientLost).ok();
            }
        }
    }

    /// When something has to be stopped.
    pub(crate) fn next_lost(&self) -> Option<Instant> {
        self.lock().waiting.next()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().sessions.len()
    }

    /// Whether there are none, and nothing is still to be told of one.
    pub(crate) fn are_over(&self) -> bool {
        let table = self.lock();
        table.sessions.is_empty() && table.telling == 0
    }

    /// How many clients wait for an operation, and whether it goes on without any.
    pub(crate) fn clients_of(&self, operation_id: &str) -> Option<(usize, bool)> {
        self.lock().waiting.of(operation_id)
    }

    /// Takes nothing new from now on.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// Takes nothing new from now on, if there is nothing.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut table = self.lock();
        if table.sessions.is_empty() {
            table.closed = true;
        }
        table.closed
    }

    /// Stops everything that is executed. Those who only wait for the operation of another one get its
    /// result.
    pub(crate) fn stop_all(&self, manner: StopManner, grace: Duration) {
        let table = self.lock();
        let executed = table
            .sessions
            .values()
            .filter(|it| !it.session.lock().joined);
        for entry in executed {
            // One that is over has its result.
            entry.session.stop(Stop::Asked(manner, grace)).ok();
        }
    }

    /// Stops the operation of this id, whoever submitted it; false if none is here.
    pub(crate) fn stop_operation(&self, operation_id: &str, stop: Stop) -> bool {
        let table = self.lock();
        let of_it = table.sessions.values().filter(|entry| {
            entry.operation_id.as_deref() == Some(operation_id) && !entry.session.lock().joined
        });
        of_it
            .filter(|entry| entry.session.stop(stop).is_ok())
            .count()
            > 0
    }
}
