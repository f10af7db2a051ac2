//! What happens around the helper, one thing at a time, as the script says: in the tree, among strangers, at the
//! supervisor's.

use xioflow_protocol::{PROTOCOL_VERSION, Request};
use xioflow_sys::{EndKind, Signal};

use crate::host::Said;
use crate::kernel::OUTSIDE;
use crate::process::{Kin, Process, Who};
use crate::world::World;

/// Signals that processes end by.
const DEADLY: [Signal; 4] = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP];

impl World {
    /// What an ordinary supervisor does next.
    pub(crate) fn belongs_next(&mut self) {
        self.host.send_on();
        let host = &mut self.host;
        if !host.has_said(Said::Hello) {
            host.say_hello(PROTOCOL_VERSION);
        } else if !host.has_said(Said::Launch) {
            host.say_launch(0, "/");
        } else if self.child_goes_on(false) || self.init_goes_on() {
            // It waits for that.
        } else if !self.host.has_said(Said::Release) {
            if self.announced {
                self.host.say(&Request::Release);
            }
        } else if self.has_heard_end() {
            self.host.say(&Request::Recorded);
        } else {
            self.deed();
        }
    }

    /// Whatever may happen.
    pub(crate) fn act(&mut self) {
        match self.script.byte() {
            0..=15 => self.belongs_next(),
            16..=35 => self.host_does(),
            36..=43 => {
                self.child_goes_on(false);
            }
            44..=47 => {
                self.child_goes_on(true);
            }
            48..=51 => {
                self.init_goes_on();
            }
            52..=79 => self.stranger_does(),
            80..=87 => self.kernel.now_us += u64::from(self.script.byte()) * 1000,
            _ => self.deed(),
        }
    }

    fn host_does(&mut self) {
        let plan = self.host.plan();
        let choice = self.script.byte();
        self.note("supervisor does", u64::from(choice % 24));
        match choice % 24 {
            0..=3 => {
                // Nobody can want a tree to end that they were not told of.
                self.host.misspoke |= !self.announced;
                self.host.say(&Request::Stop(plan));
            }
            4 => self.say(&Request::Suspend),
            5 => self.say(&Request::Resume),
            6 => self.say(&Request::Discard),
            7 => self.say(&Request::Recorded),
            8 => self.say(&Request::Release),
            9 => self.host.go(),
            10 => self.host.deaf = !self.host.deaf,
            11 => self.host.send_on(),
            12 => self.begin_one(),
            13 => self.host.say_with_descriptor(&Request::Resume),
            14 => self.say_out_of_order(choice),
            15 => self.say_damaged(choice),
            16 => self.host.fall_silent(),
            17 => self.to_helper.extend(self.script.one_of(&DEADLY[1..])),
            _ => self.belongs_next(),
        }
    }

    /// A request that may be out of its order; then it may be refused.
    fn say(&mut self, request: &Request) {
        self.host.misspoke = true;
        self.host.say(request);
    }

    fn begin_one(&mut self) {
        self.host.misspoke = true;
        let len = self.script.pick(6);
        let request = match self.script.byte() & 1 {
            0 => Request::Resume,
            _ => Request::Release,
        };
        self.host.begin(&request, len);
    }

    fn say_out_of_order(&mut self, choice: u8) {
        self.host.misspoke = true;
        match choice / 24 % 5 {
            0 => self.host.say_hello(PROTOCOL_VERSION + 1),
            1 => self.host.say_hello(PROTOCOL_VERSION),
            2 => self.host.say_launch(1, "/"),
            3 => self.host.say_launch(-1, "/"),
            _ => self.host.say_launch(0, "relative"),
        }
    }

    fn say_damaged(&mut self, choice: u8) {
        let bytes = match choice / 24 % 3 {
            0 => u32::MAX.to_le_bytes().to_vec(),
            1 => vec![3, 0, 0, 0, 0xff, 0xff, 0xff],
            _ => (0..self.script.pick(12))
                .map(|_| self.script.byte())
                .collect(),
        };
        self.host.say_bytes(bytes);
    }

    fn stranger_does(&mut self) {
        let strangers = self.kernel.living(|it| it.kin == Kin::Stranger);
        let choice = self.script.byte();
        match choice % 8 {
            0..=3 => {
                // Numbers go round; strangers like those of the dead best.
                if choice & 64 == 0 {
                    self.kernel.set_back(self.kernel.freed);
                }
                if let Some(who) = self.kernel.fork(OUTSIDE, false) {
                    self.note("stranger comes", who as u64);
                    if self.script.byte() & 1 == 0 {
                        self.kernel.set_session(who);
                    }
                }
            }
            4..=5 => {
                if let Some(who) = self.script.one_of(&strangers[1..]) {
                    self.end(who, EndKind::Exited { code: 0 });
                }
            }
            6 => {
                let next = u32::from(self.script.byte());
                self.kernel.set_back(next % self.kernel.pid_max);
            }
            _ => {
                if let Some(who) = self.script.one_of(&strangers[1..]) {
                    self.kernel.fork(who, false);
                }
            }
        }
    }

    /// Somebody of the tree who can do something by itself.
    fn actor(&mut self) -> Option<Who> {
        let acts = |it: &Process| it.kin == Kin::Member && it.lives() && !it.stopped && !it.deep;
        let root_runs = self
            .kernel
            .root
            .is_some_and(|root| self.kernel.all[root].executed);
        let actors = if root_runs {
            self.kernel.living(acts)
        } else {
            vec![]
        };
        self.script.one_of(&actors)
    }

    fn deed(&mut self) {
        let choice = self.script.byte();
        if choice >= 200 {
            return self.befalls(choice);
        }
        let Some(who) = self.actor() else { return };
        self.note("does", u64::from(choice % 20) * 1000 + who as u64);
        match choice % 20 {
            0..=3 => drop(self.fork(who, false)),
            4 => drop(self.fork(who, true)),
            5 => {
                // A daemon: its parent is gone, and it has a session of its own.
                if let Some(child) = self.fork(who, false) {
                    self.kernel.set_session(child);
                    if let Some(daemon) = self.fork(child, false) {
                        self.end(child, EndKind::Exited { code: 0 });
                        self.kernel.all[daemon].deaf = choice & 64 != 0;
                    }
                }
            }
            6 => {
                let code = i32::from(self.script.byte());
                self.end(who, EndKind::Exited { code });
            }
            7 => self.kernel.set_session(who),
            8 => self.kernel.set_group(who, who),
            9 => {
                let members = self.kernel.members();
                if let Some(other) = self.script.one_of(&members) {
                    let group = self.kernel.all[other].group;
                    self.kernel.set_group(who, group);
                }
            }
            10 => self.kernel.all[who].deaf = true,
            11 => self.kernel.all[who].adopts = true,
            12 => self.kernel.all[who].foreign = true,
            13 => self.kernel.all[who].careless = true,
            14 => self.kernel.all[who].swarms = choice & 64 != 0,
            15 => self.kernel.all[who].stopped = true,
            16 => self.kernel.all[who].deep = true,
            17 => self.kernel.all[who].headless = true,
            18 => self.waits_for_child(who),
            // Another thread executes and takes the place of the first, also of one that has ended.
            _ => {
                let it = &mut self.kernel.all[who];
                (it.headless, it.executed) = (false, true);
            }
        }
    }

    fn fork(&mut self, who: Who, as_sibling: bool) -> Option<Who> {
        let child = self.kernel.fork(who, as_sibling)?;
        self.note("forks", child as u64);
        Some(child)
    }

    fn waits_for_child(&mut self, who: Who) {
        let mut ended = self.kernel.children(who);
        ended.retain(|&child| self.kernel.all[child].is_waitable());
        if let Some(child) = self.script.one_of(&ended) {
            self.kernel.reap(child);
        }
    }

    /// Something that others do to one of the tree, or the system.
    fn befalls(&mut self, choice: u8) {
        let members: Vec<Who> = self
            .kernel
            .present
            .iter()
            .copied()
            .filter(|&who| self.kernel.all[who].kin == Kin::Member)
            .collect();
        let Some(who) = self.script.one_of(&members) else {
            return;
        };
        self.note("befalls", u64::from(choice % 8) * 1000 + who as u64);
        match choice % 8 {
            0 => self.deadly(who),
            1 => self.kernel.signal(who, Signal::CONT),
            2 => {
                self.kernel.all[who].deep = false;
                self.kernel.deliver(who);
            }
            3 => self.kernel.all[who].traced |= self.kernel.all[who].lives(),
            4 => self.kernel.let_go(who),
            5 => self.kernel.all[who].stopped = true,
            6 => self.is_replaced(who),
            _ => {
                // It gives its rights up, or its file is taken away.
                self.kernel.all[who].foreign = false;
            }
        }
        self.close_of_dead();
    }

    /// It ends, is waited for by a parent in the tree, and its number is somebody else's.
    fn is_replaced(&mut self, who: Who) {
        let parent = self.kernel.all[who].parent;
        if self.kernel.all[parent].kin == Kin::Member {
            self.end(who, EndKind::Exited { code: 0 });
            self.kernel.reap(who);
            self.kernel.wanted = Some(self.kernel.all[who].number);
        }
    }

    fn deadly(&mut self, who: Who) {
        if let Some(signal) = self.script.one_of(&DEADLY) {
            self.kernel.signal(who, signal);
        }
    }
}
