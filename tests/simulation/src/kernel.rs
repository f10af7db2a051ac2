//! The simulated kernel: who there is, under which number, whose child, and what a signal does.
//!
//! What it does is what the man pages say of fork(2), setsid(2), kill(2), wait(2) and prctl(2)
//! (`PR_SET_CHILD_SUBREAPER`); of numbers, that one is given away again when no process, group or session has it.

use std::collections::BTreeSet;

use xioflow_sys::{EndKind, Errno, Signal};

use crate::process::{Kin, Life, Process, Who};

/// The process that adopts who has nobody else, outside of everything.
pub(crate) const OUTSIDE: Who = 0;
/// The helper.
pub(crate) const HELPER: Who = 1;

/// How many processes there are at most: a table has a limit, and forks fail there.
const PRESENT_MAX: usize = 160;

#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) all: Vec<Process>,
    /// Those that have their numbers.
    pub(crate) present: Vec<Who>,
    pub(crate) pid_max: u32,
    next: u32,
    /// Numbers that became free since the helper's last call. That all others are given away between two
    /// calls of it is not simulated: no system is as quick.
    cooling: BTreeSet<u32>,
    /// The number of the last one that was waited for.
    pub(crate) freed: u32,
    /// A number that a stranger takes as soon as it can be had.
    pub(crate) wanted: Option<u32>,
    pub(crate) now_us: u64,
    /// A child of the helper has ended since it asked.
    pub(crate) child_ended: bool,
    /// How the init ends, once nobody else is in its namespace.
    init_ends: Option<EndKind>,
    pub(crate) init: Option<Who>,
    pub(crate) root: Option<Who>,
    /// Numbers of children that were not waited for are given away as well: a lie.
    pub(crate) gives_away: bool,
}

impl Kernel {
    pub(crate) fn new(pid_max: u32) -> Self {
        let process = |number, kin| Process {
            number,
            parent: OUTSIDE,
            group: usize::from(kin == Kin::Helper),
            session: usize::from(kin == Kin::Helper),
            start_ticks: 1,
            kin,
            life: Life::Lives,
            executed: true,
            enclosed: false,
            headless: false,
            stopped: false,
            deep: false,
            foreign: false,
            deaf: false,
            adopts: true,
            traced: false,
            careless: false,
            swarms: false,
            pending: None,
        };
        Self {
            all: vec![process(1, Kin::Stranger), process(2, Kin::Helper)],
            present: vec![OUTSIDE, HELPER],
            pid_max,
            next: 3,
            cooling: BTreeSet::new(),
            freed: 3,
            wanted: None,
            now_us: 1_000_000,
            child_ended: false,
            init_ends: None,
            init: None,
            root: None,
            gives_away: false,
        }
    }

    /// The helper makes a call: numbers that were free before it may be given away after it.
    pub(crate) fn helper_calls(&mut self) {
        self.cooling.clear();
        if let Some(number) = self.wanted.take() {
            self.set_back(number);
            self.fork(OUTSIDE, false);
        }
    }

    /// The number before the next one.
    pub(crate) const fn last_given(&self) -> u32 {
        self.next.saturating_sub(1)
    }

    pub(crate) fn ticks(&self) -> u64 {
        self.now_us / 10_000
    }

    /// Who has a number now.
    pub(crate) fn find(&self, number: u32) -> Option<Who> {
        // The last, where a lie has given one away twice.
        let mut present = self.present.iter().rev().copied();
        present.find(|&who| self.all[who].number == number)
    }

    pub(crate) fn living(&self, keep: impl Fn(&Process) -> bool) -> Vec<Who> {
        let is_kept = |who: &Who| self.all[*who].lives() && keep(&self.all[*who]);
        self.present.iter().copied().filter(is_kept).collect()
    }

    pub(crate) fn members(&self) -> Vec<Who> {
        self.living(|it| it.kin == Kin::Member)
    }

    pub(crate) fn children(&self, parent: Who) -> Vec<Who> {
        let of = |who: &Who| self.all[*who].parent == parent && *who != OUTSIDE;
        self.present.iter().copied().filter(of).collect()
    }

    fn holds(&self, who: Who, number: u32) -> bool {
        let it = &self.all[who];
        let is_away = self.gives_away && matches!(it.life, Life::Ended(_));
        let has = it.number == number && !is_away;
        has || self.all[it.group].number == number || self.all[it.session].number == number
    }

    fn is_free(&self, number: u32) -> bool {
        let is_held = self.present.iter().any(|&who| self.holds(who, number));
        !is_held && (self.gives_away || !self.cooling.contains(&number))
    }

    /// The next number that is free, going round.
    fn take_number(&mut self) -> Option<u32> {
        for _ in 0..self.pid_max {
            let number = self.next;
            self.next = if number + 1 >= self.pid_max {
                3
            } else {
                number + 1
            };
            if self.is_free(number) {
                return Some(number);
            }
        }
        None
    }

    /// Begins again with low numbers.
    pub(crate) fn set_back(&mut self, next: u32) {
        self.next = next.clamp(3, self.pid_max - 1);
    }

    /// fork(2) of one process; with `CLONE_PARENT`, the child of its parent.
    pub(crate) fn fork(&mut self, who: Who, as_sibling: bool) -> Option<Who> {
        if self.present.len() >= PRESENT_MAX {
            return None;
        }
        let number = self.take_number()?;
        let parent = if as_sibling {
            self.all[who].parent
        } else {
            who
        };
        let ticks = self.ticks();
        let child = Process::copy(&self.all[who], parent, number, ticks);
        self.all.push(child);
        self.present.push(self.all.len() - 1);
        Some(self.all.len() - 1)
    }

    /// setsid(2); refused to the leader of a group.
    pub(crate) fn set_session(&mut self, who: Who) {
        let is_group = self.present.iter().any(|&it| self.all[it].group == who);
        if !is_group {
            (self.all[who].group, self.all[who].session) = (who, who);
        }
    }

    /// setpgid(2), into a group of its own or another one of its session.
    pub(crate) fn set_group(&mut self, who: Who, group: Who) {
        let session = self.all[who].session;
        let is_of_session =
            |it: &Who| self.all[*it].group == group && self.all[*it].session == session;
        let exists = group == who || self.present.iter().any(is_of_session);
        if exists && session != who {
            self.all[who].group = group;
        }
    }

    /// Ends a process, and gives its children to whoever adopts them.
    pub(crate) fn end(&mut self, who: Who, how: EndKind) {
        if !self.all[who].lives() || matches!(self.all[who].kin, Kin::Helper) || who == OUTSIDE {
            return;
        }
        if self.all[who].kin == Kin::Init {
            self.init_ends.get_or_insert(how);
            for other in self.living(|it| it.enclosed && it.kin == Kin::Member) {
                self.signal(other, Signal::KILL);
            }
            return self.end_init();
        }
        self.all[who].life = Life::Ended(how);
        let adopter = self.adopter(who);
        for child in self.children(who) {
            self.all[child].parent = adopter;
            if !self.all[child].lives() {
                self.tell_parent(child);
            }
        }
        self.tell_parent(who);
        self.end_init();
    }

    /// An init has ended when all others of its namespace were waited for.
    fn end_init(&mut self) {
        let (Some(init), Some(how)) = (self.init, self.init_ends) else {
            return;
        };
        let is_other = |who: &Who| self.all[*who].enclosed && *who != init;
        if self.all[init].lives() && !self.present.iter().any(is_other) {
            self.all[init].life = Life::Ended(how);
            self.tell_parent(init);
        }
    }

    fn adopter(&self, who: Who) -> Who {
        match self.all[who].kin {
            Kin::Stranger | Kin::Helper | Kin::Init => return OUTSIDE,
            Kin::Member => {}
        }
        let mut above = self.all[who].parent;
        while self.all[above].kin == Kin::Member {
            if self.all[above].adopts && self.all[above].lives() {
                return above;
            }
            above = self.all[above].parent;
        }
        match self.init {
            Some(init) if self.all[who].enclosed => init,
            Some(_) | None => HELPER,
        }
    }

    /// Somebody has ended: its parent hears of it, or it is waited for at once.
    fn tell_parent(&mut self, who: Who) {
        let parent = self.all[who].parent;
        match self.all[parent].kin {
            Kin::Helper => self.child_ended = true,
            Kin::Member if !self.all[parent].careless => {}
            Kin::Stranger | Kin::Init | Kin::Member => {
                if !self.all[who].traced {
                    self.reap(who);
                }
            }
        }
    }

    /// Its parent waits for one that has ended.
    pub(crate) fn reap(&mut self, who: Who) {
        let Life::Ended(how) = self.all[who].life else {
            return;
        };
        self.all[who].life = Life::Gone(how);
        self.present.retain(|&it| it != who);
        self.freed = self.all[who].number;
        let held = [who, self.all[who].group, self.all[who].session];
        self.cooling.extend(held.map(|it| self.all[it].number));
        self.end_init();
    }

    /// A tracer lets go of one.
    pub(crate) fn let_go(&mut self, who: Who) {
        self.all[who].traced = false;
        if matches!(self.all[who].life, Life::Ended(_)) {
            self.tell_parent(who);
        }
    }

    /// What a signal that was sent does.
    pub(crate) fn signal(&mut self, who: Who, signal: Signal) {
        let it = &mut self.all[who];
        if !it.lives() {
            return;
        }
        match signal {
            Signal::KILL if it.deep => it.pending = Some(signal),
            Signal::KILL => self.end(who, killed(signal)),
            _ if it.kin == Kin::Init => {}
            Signal::STOP => it.stopped = true,
            Signal::CONT => {
                it.stopped = false;
                self.deliver(who);
            }
            _ if it.deaf => {}
            _ if it.stopped || it.deep => it.pending = it.pending.or(Some(signal)),
            _ => self.end(who, killed(signal)),
        }
    }

    /// It has woken up, or goes on.
    pub(crate) fn deliver(&mut self, who: Who) {
        let it = &mut self.all[who];
        if let Some(signal) = it.pending
            && !it.deep
            && (signal == Signal::KILL || !it.stopped)
        {
            it.pending = None;
            self.end(who, killed(signal));
        }
    }

    /// The members of a group, by who has made it.
    pub(crate) fn group(&self, leader: Who) -> Vec<Who> {
        let is_in = |who: &Who| self.all[*who].group == leader;
        self.present.iter().copied().filter(is_in).collect()
    }

    /// Who has made the group of that number.
    pub(crate) fn group_leader(&self, number: u32) -> Result<Who, Errno> {
        let groups = self.present.iter().map(|&who| self.all[who].group);
        let mut named = groups.filter(|&leader| self.all[leader].number == number);
        named.next_back().ok_or(Errno::ESRCH)
    }
}

pub(crate) fn killed(signal: Signal) -> EndKind {
    EndKind::Killed {
        signal: signal.number(),
        core: false,
    }
}
