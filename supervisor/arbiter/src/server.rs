//! The loop: one thread that waits for all sockets, and gives everything that may take long to others.
//! `reading` takes lines from connections, `dispatch` says what a request means, `ending` when the loop is over.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use xioflow_facts::Standing;
use xioflow_kernel::{DEFAULT_CANCEL_GRACE, Domain};
use xioflow_killpoint as killpoint;
use xioflow_rpc::kernel::Welcome;

use crate::bell::Bell;
use crate::client::Client;
use crate::connection::{Connection, Interest, Phase, Token};
use crate::ending::Ending;
use crate::events::Events;
use crate::idle::Idle;
use crate::limits::{ACCEPTED_PER_TURN, CONNECTIONS_MAX, GREETING_PATIENCE, READ_LEN};
use crate::options::{ArbiterOptions, ShutdownHandle};
use crate::outgoing::Outgoing;
use crate::own_limits::OwnLimits;
use crate::peer::Peer;
use crate::questions::Questions;
use crate::refusal;
use crate::serve::Ended;
use crate::shared::Shared;
use crate::socket::Listener;

/// Events that are taken at once.
const EVENTS_PER_TURN: usize = 64;

/// How long one wait may be: kernels before 5.11 take no more than fits into 31 bits of milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries whose room a table keeps in any case.
const KEPT_ENTRIES: usize = 64;

/// What wakes the loop beside connections, whose tokens begin after these.
const LISTENER: u64 = 0;
const BELL: u64 = 1;
const SHUTDOWN: u64 = 2;
const FIRST_TOKEN: u64 = 3;

/// What a loop is made of.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) domain: Arc<Domain>,
    pub(crate) listener: Listener,
    pub(crate) own: Standing,
    pub(crate) welcome: Welcome,
    /// What commands get where their client says nothing of limits.
    pub(crate) own_limits: OwnLimits,
    pub(crate) options: ArbiterOptions,
}

/// The loop.
#[derive(Debug)]
pub(crate) struct Server {
    epoll: OwnedFd,
    listener: Listener,
    /// Whether new connections are waited for.
    listens: bool,
    shutdown: Option<ShutdownHandle>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) own: Standing,
    pub(crate) welcome: Welcome,
    pub(crate) shared: Arc<Shared>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) events: Arc<Events>,
    pub(crate) idle_limit: Option<Duration>,
    idle: Idle,
    pub(crate) ending: Ending,
    pub(crate) connections: HashMap<Token, Connection>,
    next_token: u64,
    /// When each that has not greeted is closed, in the order of their coming.
    greetings: VecDeque<(Instant, Token)>,
    /// Those with lines that were received and not looked at, in turn.
    pub(crate) turns: VecDeque<Token>,
    /// When the end of each long line has to be there, in this order.
    pub(crate) long_lines: VecDeque<(Instant, Token)>,
    /// What the unfinished lines of all connections take.
    pub(crate) unfinished_bytes: usize,
    pub(crate) buffer: Vec<u8>,
}

impl Server {
    /// # Errors
    /// Those of epoll(7) and eventfd(2).
    pub(crate) fn new(setup: Setup) -> io::Result<Self> {
        let Setup {
            domain,
            listener,
            own,
            welcome,
            own_limits,
            options,
        } = setup;
        let bell = Arc::new(Bell::new()?);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let watch = |source: &dyn AsFd, name| {
            let data = EventData::new_u64(name);
            epoll::add(&epoll, source.as_fd(), data, EventFlags::IN)
        };
        watch(&listener, LISTENER)?;
        watch(&bell, BELL)?;
        if let Some(shutdown) = &options.shutdown {
            watch(shutdown, SHUTDOWN)?;
        }
        let shared = Shared::new(Arc::clone(&bell), options.client_grace, own_limits)?;
        Ok(Self {
            epoll,
            listener,
            listens: true,
            shutdown: options.shutdown,
            domain,
            own,
            welcome,
            shared: Arc::new(shared),
            questions: Arc::new(Questions::new(bell)),
            events: Arc::new(Events::new()?),
            idle_limit: options.idle,
            idle: Idle::new(options.idle),
            ending: Ending::default(),
            connections: HashMap::new(),
            next_token: FIRST_TOKEN,
            greetings: VecDeque::new(),
            turns: VecDeque::new(),
            long_lines: VecDeque::new(),
            unfinished_bytes: 0,
            buffer: vec![0; READ_LEN],
        })
    }

    /// Serves until it is to end.
    ///
    /// # Errors
    /// Those of epoll_wait(2).
    pub(crate) fn run(&mut self) -> io::Result<Ended> {
        loop {
            let now = Instant::now();
            self.keep_time(now);
            if let Some(ended) = self.is_over(now) {
                return Ok(ended);
            }
            for (name, flags) in self.wait(now)? {
                self.handle(name, flags);
            }
            self.take_turns();
        }
    }

    /// Gives everything back: the socket, the domain, and then, so that a client that sees the end can have
    /// the domain at once, the connections.
    pub(crate) fn end(self) {
        self.listener.unlink();
        killpoint::pass(|| "arbiter:unlinked");
        // It looks into the domain.
        self.events.close();
        let Self {
            listener,
            domain,
            connections,
            ..
        } = self;
        drop(listener);
        drop(domain);
        killpoint::pass(|| "arbiter:given-up");
        drop(connections);
    }

    fn wait(&mut self, now: Instant) -> io::Result<Vec<(u64, EventFlags)>> {
        let timeout = self.timeout(now).map(|left| left.min(WAIT_MAX));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let mut events = [MaybeUninit::uninit(); EVENTS_PER_TURN];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => Ok(events
                .iter()
                .map(|event| (event.data.u64(), event.flags))
                .collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// How long nothing has to be done if nothing happens; none if for ever.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        if !self.turns.is_empty() {
            return Some(Duration::ZERO);
        }
        let greeting = self.greetings.front().map(|(until, _)| *until);
        let next = [
            greeting,
            self.long_lines.front().map(|(until, _)| *until),
            self.shared.sessions.next_lost(),
            self.ending.until(),
            self.idle.until(),
        ];
        let next = next.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Does what is due.
    fn keep_time(&mut self, now: Instant) {
        // Another arbiter can take the domain over when this one is gone, and not before.
        if self.shared.has_lost_domain() && !self.ending.has_begun() {
            self.begin_end();
            self.stop_all(DEFAULT_CANCEL_GRACE);
        }
        self.shared.sessions.stop_lost(now);
        self.end_long_lines(now);
        while let Some((until, token)) = self.greetings.front().copied() {
            let waits = self
                .connections
                .get(&token)
                .is_some_and(|it| it.phase == Phase::New);
            if waits && until > now {
                break;
            }
            self.greetings.pop_front();
            if waits {
                self.close(token);
            }
        }
    }

    fn is_over(&mut self, now: Instant) -> Option<Ended> {
        let works = !self.shared.sessions.are_over() || !self.questions.is_idle();
        if self.ending.has_begun() {
            let says = self.says_something();
            return self.ending.is_over(works, says, now).then_some(Ended::Told);
        }
        let is_needed = works || self.shared.passing() > 0 || !self.connections.is_empty();
        self.idle.note(is_needed, now);
        if !self.idle.is_over(now) {
            return None;
        }
        // Whoever has connected at this very moment is served.
        self.accept();
        (self.connections.is_empty() && self.shared.sessions.close_if_empty())
            .then_some(Ended::Idle)
    }

    /// Whether somebody has still to read something.
    fn says_something(&self) -> bool {
        let waits = |it: &Connection| it.client.outgoing.waiting_bytes() > 0;
        self.shared.passing() > 0 || self.connections.values().any(waits)
    }

    fn handle(&mut self, name: u64, flags: EventFlags) {
        match name {
            LISTENER => self.accept(),
            BELL => {
                for token in self.shared.bell.answer() {
                    self.settle(token);
                }
                self.take_read_lines();
                // What has ended has given descriptors back.
                self.listen();
            }
            SHUTDOWN => self.told_to_stop(),
            token => self.serve_connection(Token(token), flags),
        }
    }

    fn told_to_stop(&mut self) {
        if let Some(shutdown) = &self.shutdown {
            let grace = shutdown.take();
            self.begin_end();
            self.stop_all(grace);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_PER_TURN {
            match self.listener.accept() {
                Ok(Some(socket)) => self.welcome_connection(socket),
                Ok(None) => return,
                // Out of descriptors or memory. Who waits would wake the loop without end, so nobody is
                // waited for until something is given back.
                Err(_) => return self.listen_no_more(),
            }
        }
    }

    fn listen_no_more(&mut self) {
        if self.listens && epoll::delete(&self.epoll, &self.listener).is_ok() {
            self.listens = false;
        }
    }

    fn listen(&mut self) {
        if !self.listens {
            let data = EventData::new_u64(LISTENER);
            self.listens = epoll::add(&self.epoll, &self.listener, data, EventFlags::IN).is_ok();
        }
    }

    /// Takes a connection in. One that cannot be served ends at once.
    fn welcome_connection(&mut self, socket: OwnedFd) {
        let Ok(peer) = Peer::of(&socket) else { return };
        let token = Token(self.next_token);
        self.next_token += 1;
        let (socket, bell) = (Arc::new(socket), Arc::clone(&self.shared.bell));
        let outgoing = Outgoing::new(token, Arc::clone(&socket), Arc::clone(&bell));
        if self.connections.len() >= CONNECTIONS_MAX && !self.end_most_silent() {
            let message = "the arbiter has as many connections as it can have";
            let fault = refusal::limit(message, "connections", CONNECTIONS_MAX as u64);
            return outgoing.refuse(None, fault);
        }
        let data = EventData::new_u64(token.0);
        if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_err() {
            return;
        }
        let client = Arc::new(Client::new(outgoing, bell));
        let connection = Connection::new(socket, client, peer);
        self.connections.insert(token, connection);
        self.greetings
            .push_back((Instant::now() + GREETING_PATIENCE, token));
    }

    /// Ends the connection that has not greeted for longest, to have room for another one; false if all have
    /// greeted. So those that never say anything take no place from those that do.
    fn end_most_silent(&mut self) -> bool {
        while let Some((_, token)) = self.greetings.pop_front() {
            let connection = self.connections.get(&token);
            if connection.is_some_and(|it| it.phase == Phase::New) {
                self.close(token);
                return true;
            }
        }
        false
    }

    /// Brings what is waited for in line with the state of a connection, and closes one that is over.
    pub(crate) fn settle(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        // Said before the look, so that a request that is over in between rings.
        connection.client.await_one(true);
        let asks = connection.may_ask();
        connection.client.await_one(!asks || connection.input_ended);
        if connection.client.outgoing.has_failed() || connection.is_over() {
            return self.close(token);
        }
        if asks && connection.has_lines && !self.turns.contains(&token) {
            self.turns.push_back(token);
        }
        let wanted = Interest {
            read: asks && !connection.has_lines && !connection.input_ended,
            write: connection.client.outgoing.waiting_bytes() > 0,
        };
        if wanted == connection.interest {
            return;
        }
        connection.interest = wanted;
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, wanted.read);
        flags.set(EventFlags::OUT, wanted.write);
        let data = EventData::new_u64(token.0);
        if epoll::modify(&self.epoll, &*connection, data, flags).is_err() {
            self.close(token);
        }
    }

    /// Ends a connection. What it has submitted may be lost with it.
    pub(crate) fn close(&mut self, token: Token) {
        let Some(connection) = self.connections.remove(&token) else {
            return;
        };
        // A child that is just being started may have a copy, so closing would not take it out.
        epoll::delete(&self.epoll, &connection).ok();
        self.unfinished_bytes -= connection.unfinished_bytes;
        drop(connection);
        if self.events.has(token) {
            self.events.nudge();
        }
        self.shared.sessions.lose(token);
        give_back(&mut self.connections);
        self.listen();
    }
}

/// Gives memory back that a burst has needed, now and then.
pub(crate) fn give_back<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > 4 * map.len().max(KEPT_ENTRIES) {
        map.shrink_to(2 * map.len());
    }
}
