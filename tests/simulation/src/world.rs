//! Everything around the helper: kernel, supervisor, the child at its gate, time; and what is checked at each step.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::time::Duration;

use xioflow_protocol::{GATE_CLOSED_EXIT, HELPER_EXIT_OK, HELPER_EXIT_PROTOCOL, LastWord, Reply};
use xioflow_reaper::simulated::{DISMISSED, INIT_READY, OPEN, READY};
use xioflow_sys::{
    AsFd, EndKind, Errno, GroupId, OwnedFd, PollFd, RawFd, Signal, duplicate_above, ppoll, recv,
    send,
};

use crate::host::{Host, Said, WORD};
use crate::kernel::{HELPER, Kernel};
use crate::process::{Kin, Who};
use crate::promises::{Heard, check_word};
use crate::script::Script;
use crate::settings::{Lie, Settings};

/// How many calls a run may take: some ten thousand are usual for a fight.
const CALLS_MAX: u32 = 400_000;

/// How many of the last steps are told with a finding.
const STEPS_TOLD: usize = 120;

/// Where the child is on its way to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Preparing,
    Waiting,
    Opened,
    Through,
}

/// One thing that happened: when (microseconds), what, with whom or how many.
type Step = (u64, &'static str, u64);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) script: Script,
    pub(crate) host: Host,
    pub(crate) settings: Settings,
    pub(crate) lie: Option<Lie>,
    heard: Heard,
    way: Way,
    door: Option<OwnedFd>,
    pub(crate) lifeline: Option<OwnedFd>,
    pub(crate) init_is_ready: bool,
    /// Which process a descriptor means.
    descriptors: BTreeMap<RawFd, Who>,
    blank: OwnedFd,
    pub(crate) signals: RawFd,
    /// What somebody wants of the helper itself.
    pub(crate) to_helper: Vec<Signal>,
    calls: u32,
    pub(crate) in_force: bool,
    pub(crate) announced: bool,
    released: bool,
    /// How often the helper has waited since the supervisor went.
    waits_alone: u32,
    steps: Vec<Step>,
}

impl World {
    pub(crate) fn new(
        mut script: Script,
        end: OwnedFd,
        holders: OwnedFd,
        blank: OwnedFd,
        signals: RawFd,
        lie: Option<Lie>,
    ) -> Self {
        let settings = Settings::read(&mut script);
        let copy = duplicate_above(blank.as_fd(), 3).expect("a descriptor is copied");
        let mut kernel = Kernel::new(settings.pid_max);
        kernel.gives_away = lie == Some(Lie::GivesNumbersAway);
        Self {
            kernel,
            script,
            host: Host::new(end, copy, holders, settings),
            settings,
            lie,
            heard: Heard::default(),
            way: Way::Preparing,
            door: None,
            lifeline: None,
            init_is_ready: false,
            descriptors: BTreeMap::new(),
            blank,
            signals,
            to_helper: Vec::new(),
            calls: 0,
            in_force: false,
            announced: false,
            released: false,
            waits_alone: 0,
            steps: Vec::new(),
        }
    }

    /// Ends the run with a finding and how it came to it.
    pub(crate) fn broken(&self, promise: &str) -> ! {
        let from = self.steps.len().saturating_sub(STEPS_TOLD);
        let told: Vec<String> = self.steps[from..]
            .iter()
            .map(|(at, what, whom)| format!("{:>9} {what} {whom}", at % 1_000_000_000))
            .collect();
        let present = self
            .kernel
            .present
            .iter()
            .map(|&who| (who, &self.kernel.all[who]));
        let present: Vec<_> = present.map(|(who, it)| it.told(who)).collect();
        panic!(
            "{promise}\nof {:?}\n{}\nthere are\n{}",
            self.settings,
            told.join("\n"),
            present.join("\n")
        )
    }

    /// The helper has panicked, or a promise was found broken in a call of it: then that was told already.
    pub(crate) fn panicked(&self, panic: Box<dyn Any + Send>) -> ! {
        let told = panic.downcast_ref::<String>();
        if told.is_some_and(|told| told.contains("\nthere are\n")) {
            resume_unwind(panic);
        }
        let told = told
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        self.broken(&format!("the helper panics: {}", told.unwrap_or_default()))
    }

    pub(crate) fn note(&mut self, what: &'static str, whom: u64) {
        self.steps.push((self.kernel.now_us, what, whom));
    }

    fn keep(&self, kept: Result<(), String>) {
        if let Err(promise) = kept {
            self.broken(&promise);
        }
    }

    /// The helper makes a call. Before it takes effect, others have their turn.
    pub(crate) fn call(&mut self, what: &'static str, whom: u64) {
        self.listen();
        self.calls += 1;
        if self.calls > CALLS_MAX {
            self.broken("it does not come to an end");
        }
        self.kernel.helper_calls();
        if self.lie != Some(Lie::ClockStands) {
            self.kernel.now_us += 10;
        }
        if self.settings.density > 0
            && self
                .script
                .next()
                .is_some_and(|byte| byte < self.settings.density)
        {
            self.act();
        }
        if self.calls.is_multiple_of(self.settings.calls_per_fork) {
            self.swarm();
        }
        self.note(what, whom);
    }

    /// Takes what the helper has said, before anything else happens.
    fn listen(&mut self) {
        let replies = match self.host.hear() {
            Ok(replies) => replies,
            Err(what) => self.broken(&what),
        };
        for reply in replies {
            self.note(name(&reply), 0);
            if self.lie == Some(Lie::HidesExit) && matches!(reply, Reply::RootExited { .. }) {
                continue;
            }
            let kept = self
                .heard
                .hear(&reply, &self.kernel, &self.host, self.settings.hides);
            self.keep(kept);
            if self.lie == Some(Lie::SaysEndTwice) && self.heard.ends == 1 {
                let kept = self.heard.hear(&reply, &self.kernel, &self.host, false);
                self.keep(kept);
            }
        }
    }

    /// One of those that fork without end forks.
    fn swarm(&mut self) {
        let swarming = self
            .kernel
            .living(|it| it.swarms && !it.stopped && !it.deep);
        let calls = usize::try_from(self.calls).unwrap_or(0);
        if let Some(&who) = swarming.get(calls % swarming.len().max(1))
            && let Some(child) = self.kernel.fork(who, false)
        {
            self.note("swarms", child as u64);
            if self.calls & 32 == 0 {
                self.kernel.set_session(child);
            }
        }
    }

    /// Makes the child, and the init before it.
    pub(crate) fn spawned(&mut self, door: OwnedFd) -> Option<Who> {
        let root = self.kernel.fork(HELPER, false)?;
        let it = &mut self.kernel.all[root];
        it.kin = Kin::Member;
        it.enclosed = self.settings.enclosed;
        self.kernel.root = Some(root);
        self.door = Some(door);
        self.way = Way::Preparing;
        Some(root)
    }

    pub(crate) fn spawned_init(&mut self, lifeline: OwnedFd) -> Option<Who> {
        let init = self.kernel.fork(HELPER, false)?;
        let it = &mut self.kernel.all[init];
        (it.kin, it.enclosed) = (Kin::Init, true);
        self.kernel.init = Some(init);
        self.lifeline = Some(lifeline);
        Some(init)
    }

    /// The child takes its next step, as far as it can. Says whether it did.
    pub(crate) fn child_goes_on(&mut self, fails: bool) -> bool {
        let Some(root) = self.kernel.root else {
            return false;
        };
        let it = &self.kernel.all[root];
        if !it.lives() {
            return self.door.take().is_some();
        }
        if it.stopped || it.deep {
            return false;
        }
        match (self.way, fails) {
            (Way::Preparing, true) => self.child_fails(root),
            (Way::Preparing, false) => {
                self.kernel.set_session(root);
                self.speak(READY);
                self.way = Way::Waiting;
                if self.lie == Some(Lie::RunsUnasked) {
                    self.execute(root);
                }
                self.note("child is ready", 0);
            }
            (Way::Waiting, _) => return self.child_listens(root),
            (Way::Opened, true) => self.child_fails(root),
            (Way::Opened, false) => self.execute(root),
            (Way::Through, _) => return false,
        }
        true
    }

    fn speak(&self, record: &[u8]) {
        if let Some(door) = &self.door {
            let _sent = send(door.as_fd(), record, None);
        }
    }

    fn child_listens(&mut self, root: Who) -> bool {
        let Some(door) = &self.door else { return false };
        let mut record = [0; 8];
        match recv(door.as_fd(), &mut record) {
            Ok(received) if &record[..received.len] == OPEN => {
                self.note("gate is open", 0);
                if !self.host.has_said(Said::Release) {
                    self.broken("the gate is open, and nobody asked for it");
                }
                (self.way, self.released) = (Way::Opened, true);
                true
            }
            Err(Errno::EAGAIN | Errno::EINTR) => false,
            Ok(_) | Err(_) => {
                self.note("gate is closed", 0);
                self.child_exits(root);
                true
            }
        }
    }

    fn execute(&mut self, root: Who) {
        self.note("executes", root as u64);
        if !self.released {
            self.broken("the command runs before it was let run");
        }
        self.kernel.all[root].executed = true;
        (self.way, self.door) = (Way::Through, None);
    }

    /// A step of the child fails: the record has the stage, an error and no words.
    fn child_fails(&mut self, root: Who) {
        self.note("child fails", 0);
        let stage: u8 = if self.way == Way::Opened { 9 } else { 5 };
        self.speak(&[stage, 2, 0, 0, 0]);
        self.child_exits(root);
    }

    fn child_exits(&mut self, root: Who) {
        let code = GATE_CLOSED_EXIT;
        self.end(root, EndKind::Exited { code });
    }

    /// Ends a process; what it held is closed with it.
    pub(crate) fn end(&mut self, who: Who, how: EndKind) {
        self.note("ends", who as u64);
        self.kernel.end(who, how);
        self.close_of_dead();
    }

    pub(crate) fn has_heard_end(&self) -> bool {
        self.heard.ends > 0
    }

    pub(crate) fn close_of_dead(&mut self) {
        if self
            .kernel
            .root
            .is_some_and(|root| !self.kernel.all[root].lives())
        {
            self.door = None;
        }
        if self
            .kernel
            .init
            .is_some_and(|init| !self.kernel.all[init].lives())
        {
            self.lifeline = None;
        }
    }

    /// The init takes its next step.
    pub(crate) fn init_goes_on(&mut self) -> bool {
        let (Some(init), Some(lifeline)) = (self.kernel.init, &self.lifeline) else {
            return false;
        };
        if !self.init_is_ready {
            let mut record = [INIT_READY; 9];
            record[1..].copy_from_slice(&self.kernel.all[init].start_ticks.to_le_bytes());
            let _sent = send(lifeline.as_fd(), &record, None);
            self.init_is_ready = true;
            return true;
        }
        let mut record = [0; 8];
        let is_told = match recv(lifeline.as_fd(), &mut record) {
            Ok(received) if &record[..received.len] == DISMISSED => true,
            Err(Errno::EAGAIN | Errno::EINTR) => return false,
            Ok(_) | Err(_) => true,
        };
        // It leaves when it has no child; the others come to it, so that is when nobody is left.
        if is_told && self.kernel.children(init).is_empty() {
            self.end(init, EndKind::Exited { code: 0 });
        }
        true
    }

    /// Delivers a signal of the helper to those who take it.
    pub(crate) fn deliver(&mut self, to: &[Who], signal: Signal) -> Result<(), Errno> {
        let mut answer = Err(Errno::ESRCH);
        for &who in to {
            let it = &self.kernel.all[who];
            if !it.is_there() {
                continue;
            }
            match it.kin {
                Kin::Member | Kin::Init => {}
                Kin::Stranger => self.broken("a stranger was signalled"),
                Kin::Helper => self.broken("the helper has signalled itself"),
            }
            if it.foreign && !self.in_force {
                answer = answer.or(Err(Errno::EPERM));
                continue;
            }
            self.note("reached", who as u64);
            self.kernel.signal(who, signal);
            answer = Ok(());
        }
        self.close_of_dead();
        answer
    }

    pub(crate) fn deliver_group(&mut self, group: GroupId, signal: Signal) -> Result<(), Errno> {
        if self.in_force {
            self.broken("a group was signalled with the helper's right");
        }
        let leader = self.kernel.group_leader(group.number())?;
        let members = self.kernel.group(leader);
        self.deliver(&members, signal)
    }

    /// A descriptor of a process.
    pub(crate) fn open(&mut self, number: u32) -> Result<OwnedFd, Errno> {
        let who = self.kernel.find(number).ok_or(Errno::ESRCH)?;
        self.open_who(who)
    }

    pub(crate) fn open_again(&mut self, descriptor: RawFd) -> Result<OwnedFd, Errno> {
        self.open_who(self.meant_by(descriptor))
    }

    fn open_who(&mut self, who: Who) -> Result<OwnedFd, Errno> {
        let descriptor = duplicate_above(self.blank.as_fd(), 3)?;
        self.descriptors.insert(descriptor.raw(), who);
        Ok(descriptor)
    }

    pub(crate) fn meant_by(&self, descriptor: RawFd) -> Who {
        match self.descriptors.get(&descriptor) {
            Some(&who) => who,
            None => self.broken("a descriptor of no process was asked"),
        }
    }

    /// Looks which of the descriptors are ready, without waiting.
    pub(crate) fn look(&mut self, fds: &mut [PollFd<'_>]) -> usize {
        let _real = ppoll(fds, Some(Duration::ZERO));
        for fd in fds.iter_mut() {
            let is_ready = match self.descriptors.get(&fd.number()) {
                _ if fd.number() < 0 => false,
                _ if fd.number() == self.signals => {
                    let is_told =
                        self.kernel.child_ended && self.lie != Some(Lie::KeepsDeathsSecret);
                    is_told || !self.to_helper.is_empty()
                }
                // Sockets come and go under the same numbers; only a process is awaited and ends.
                Some(&who) => !self.kernel.all[who].lives(),
                None => false,
            };
            if is_ready && (fd.number() == self.signals || fd.happened() == 0) {
                fd.mark(xioflow_sys::POLLIN);
            }
        }
        fds.iter().filter(|fd| fd.happened() != 0).count()
    }

    /// Nothing is ready: something happens. Says whether the helper is to look again; else its time is over.
    pub(crate) fn pass(&mut self, until_us: Option<u64>) -> bool {
        if until_us.is_some_and(|until| until <= self.kernel.now_us) {
            return false;
        }
        self.kernel.now_us += u64::from(self.lie != Some(Lie::ClockStands));
        match self.script.next() {
            Some(byte) if byte & 3 == 0 && until_us.is_some() => {
                self.kernel.now_us = until_us.unwrap_or(self.kernel.now_us);
                return false;
            }
            Some(byte) if byte & 3 == 1 => self.belongs_next(),
            Some(_) => self.act(),
            None => return self.goes_on_by_itself(until_us),
        }
        true
    }

    /// The script is over. What is under way comes to its end; then the supervisor goes.
    fn goes_on_by_itself(&mut self, until_us: Option<u64>) -> bool {
        self.calls += 1;
        if self.calls > CALLS_MAX {
            self.broken("it does not come to an end");
        }
        self.host.send_on();
        if self.child_goes_on(false) || self.init_goes_on() {
            return true;
        }
        if let Some(until) = until_us {
            self.kernel.now_us = until;
            return false;
        }
        let is_told = self.heard.ends > 0 || self.host.deaf;
        let children = self.kernel.children(HELPER);
        if !is_told && children.iter().any(|&it| self.kernel.all[it].is_waitable()) {
            self.broken("it waits, and a child of it has ended");
        }
        if !self.host.is_there() {
            self.broken("it waits for ever");
        }
        self.note("supervisor goes", 0);
        self.host.go();
        true
    }

    pub(crate) fn waits(&mut self) {
        self.waits_alone += u32::from(!self.host.is_there());
    }

    /// The helper has ended: nothing that it owed is missing.
    pub(crate) fn ended(&mut self, status: i32, folder: &Path) {
        self.listen();
        self.note("helper exits", u64::from(status.unsigned_abs()));
        let word = std::fs::read(folder.join(WORD)).ok();
        if let Some(bytes) = &word {
            match LastWord::from_bytes(bytes) {
                Ok(word) => self.keep(check_word(&word, &self.kernel, &self.host, self.released)),
                Err(what) => self.broken(&format!("the last word cannot be read: {what}")),
            }
        }
        self.check_status(status);
        self.check_account(word.is_some());
    }

    fn check_status(&self, status: i32) {
        match status {
            HELPER_EXIT_OK => {}
            HELPER_EXIT_PROTOCOL if self.host.misspoke => {}
            _ => self.broken("another exit status than it may have"),
        }
    }

    fn check_account(&self, is_written: bool) {
        let has_run = self
            .kernel
            .root
            .is_some_and(|root| self.kernel.all[root].executed);
        let was_heard = self.host.is_there() && !self.host.deaf;
        if has_run && !is_written && was_heard && self.heard.ends == 0 {
            self.broken("it leaves without a word of the end");
        }
        // Two waits: in the first the end of the supervisor may be found beside that of the tree.
        if self.announced && self.waits_alone > 1 && self.heard.ends == 0 && !is_written {
            self.broken("the supervisor is lost, and there is no last word");
        }
        let is_lost = !self.host.is_there() && !self.host.has_said(Said::Recorded);
        if self.settings.waits_for_record && is_lost && self.released && !is_written {
            self.broken("the end was not recorded, and there is no last word");
        }
        if self.heard.ends > 0 && self.heard.empty && has_run && !self.heard.exited {
            self.broken("an end without the exit of the root");
        }
    }
}

fn name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Hello(_) => "says hello",
        Reply::Spawned { .. } => "says spawned",
        Reply::LaunchFailed(_) => "says launch failed",
        Reply::Running => "says running",
        Reply::RootExited { .. } => "says root exited",
        Reply::Survivors { .. } => "says survivors",
        Reply::Signalled { .. } => "says signalled",
        Reply::TreeEmpty(_) => "says empty",
        Reply::TreeRemains(_) => "says remains",
        Reply::Refused(_) => "says refused",
        Reply::Panicked { .. } => "says panicked",
        Reply::Armour(_) => "says armour",
    }
}
