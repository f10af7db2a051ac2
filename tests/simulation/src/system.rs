//! The simulated kernel as the helper's system. Each thread has a world of its own.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use xioflow_facts::{CannotTell, Descendant, Hidden, Listing, Note, Numbers, Stat, StatLine, Way};
use xioflow_protocol::{Armour, Containment, LaunchFailure, Stage};
use xioflow_reaper::simulated::{Command, Keeper, Namespace, Spawned, Standard, System};
use xioflow_sys::{
    BorrowedFd, ChildUsage, Clock, EndKind, Ended, Errno, GroupId, OwnedFd, Pid, PollFd, Signal,
    SignalFd, SocketKind, socketpair,
};

use crate::kernel::{HELPER, OUTSIDE};
use crate::process::{Kin, Life, Process, Who};
use crate::settings::Lie;
use crate::world::World;

thread_local! {
    pub(crate) static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Does something in this thread's world.
pub(crate) fn in_world<T>(act: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| act(world.as_mut().expect("a run has a world")))
}

/// A call of the helper, during which the world goes on.
fn call<T>(what: &'static str, whom: u32, act: impl FnOnce(&mut World) -> T) -> T {
    in_world(|world| {
        world.call(what, u64::from(whom));
        act(world)
    })
}

/// The system that is a value.
#[derive(Debug)]
pub(crate) enum Simulated {}

impl System for Simulated {
    type Proof = ();

    fn now(_clock: Clock) -> Duration {
        in_world(|world| Duration::from_micros(world.kernel.now_us))
    }

    fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
        let until = timeout.map(|span| {
            let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
            in_world(|world| world.kernel.now_us.saturating_add(span))
        });
        call("waits", 0, World::waits);
        loop {
            let ready = in_world(|world| world.look(fds));
            if ready > 0 || !in_world(|world| world.pass(until)) {
                return Ok(ready);
            }
        }
    }

    fn next_signal(_signals: &SignalFd) -> Option<Signal> {
        call("takes a signal", 0, |world| {
            match std::mem::take(&mut world.kernel.child_ended) {
                true => Some(Signal::CHLD),
                false => world.to_helper.pop(),
            }
        })
    }

    fn reset_dispositions() {}

    fn spawn((): &(), command: &Command, _: &Standard) -> Result<Spawned, LaunchFailure> {
        call("spawns", 0, |world| {
            let namespace = match command.containment {
                Containment::Subreaper => None,
                Containment::PidNamespace => Some(make_namespace(world).map_err(not_made)?),
            };
            let (keeper, door) = socketpair(SocketKind::Records).map_err(not_made)?;
            let root = world.spawned(door).ok_or(not_made(Errno::EAGAIN))?;
            let (child, pidfd) = as_child(world, root);
            Ok(Spawned {
                entry: None,
                namespace,
                child,
                pidfd,
                keeper: Keeper::new(keeper),
            })
        })
    }

    fn put_on_armour(_holders: BorrowedFd<'_>) -> Armour {
        in_world(|world| world.announced = true);
        Armour {
            no_new_privs: true,
            landlock_abi: None,
            filter: true,
            capabilities: None,
        }
    }

    fn getpid() -> u32 {
        in_world(|world| world.kernel.all[HELPER].number)
    }

    fn peek_any() -> Result<Option<Ended>, Errno> {
        call("looks for any end", 0, |world| {
            let children = world.kernel.children(HELPER);
            let mut ended = children.clone();
            ended.retain(|&who| world.kernel.all[who].is_waitable());
            if ended.is_empty() && (children.is_empty() || world.lie == Some(Lie::DeniesChildren)) {
                return Err(Errno::ECHILD);
            }
            let at = usize::try_from(world.kernel.now_us / 10).unwrap_or(0) % ended.len().max(1);
            Ok(ended.get(at).and_then(|&who| how_ended(world, who)))
        })
    }

    fn peek(child: Pid) -> Result<Option<Ended>, Errno> {
        call("looks for the end of", child.number(), |world| {
            let who = our_child(world, child)?;
            Ok(how_ended(world, who))
        })
    }

    fn reap(child: Pid) -> Result<Option<Ended>, Errno> {
        call("waits for", child.number(), |world| {
            let who = our_child(world, child)?;
            let ended = how_ended(world, who);
            if ended.is_some() {
                world.kernel.reap(who);
            }
            Ok(ended)
        })
    }

    fn children_usage() -> ChildUsage {
        ChildUsage::default()
    }

    fn stat(pid: u32, _line: &mut StatLine) -> Result<Option<Stat<'_>>, CannotTell> {
        call("reads about", pid, |world| {
            let Some(who) = world.kernel.find(pid) else {
                return Ok(None);
            };
            if is_hidden(world, who) {
                return Err(CannotTell::Hidden { pid });
            }
            let seen = describe(world, who);
            Ok(Some(Stat {
                pid,
                command: b"x",
                state: seen.state,
                parent: seen.parent,
                group: seen.group,
                session: seen.session,
                flags: if world.kernel.all[who].executed {
                    0
                } else {
                    0x40
                },
                threads: seen.threads,
                start_ticks: seen.start_ticks,
            }))
        })
    }

    fn note(pid: u32) -> Result<Option<Note>, CannotTell> {
        let mut line = StatLine::new();
        let stat = Self::stat(pid, &mut line)?;
        Ok(stat.map(|stat| Note {
            pid,
            start_ticks: stat.start_ticks,
            command: b"x".to_vec(),
            uid: Some(1000),
            state: stat.state,
        }))
    }

    fn children(parent: u32) -> Result<Vec<u32>, CannotTell> {
        call("lists children of", parent, |world| {
            if world.settings.lacks_children {
                return Err(CannotTell::Hidden { pid: parent });
            }
            Ok(numbers(world, HELPER))
        })
    }

    fn children_by_number(asked: Numbers) -> Vec<u32> {
        call("asks for each number", 0, |world| {
            let children = numbers(world, HELPER).into_iter();
            children.filter(|&pid| asked.contains(pid)).collect()
        })
    }

    fn last_pid() -> Option<u32> {
        in_world(|world| Some(world.kernel.last_given()))
    }

    fn descendants(
        root: u32,
        adopter: Option<u32>,
        groups: &BTreeSet<u32>,
        until: Option<Duration>,
    ) -> Result<Listing, CannotTell> {
        let mut walk = Walk::new(groups);
        let start =
            in_world(|world| world.kernel.find(root)).ok_or(CannotTell::Hidden { pid: root })?;
        for _ in 0..4 {
            let adopter = adopter.and_then(|it| in_world(|world| world.kernel.find(it)));
            let before = walk.seen.len();
            walk.to_visit.push(start);
            walk.to_visit.extend(adopter);
            while let Some(parent) = walk.to_visit.pop() {
                if until.is_some_and(|until| Self::now(Clock::Monotonic) >= until) {
                    walk.listing.complete = false;
                    return Ok(walk.listing);
                }
                call("walks through", 0, |world| walk.visit(world, parent));
            }
            if walk.seen.len() == before {
                break;
            }
        }
        Ok(walk.listing)
    }

    fn each_process(mut take: impl FnMut(u32)) -> Result<(), CannotTell> {
        let mut numbers = call("lists all", 0, |world| {
            let present = world.kernel.present.iter();
            present
                .map(|&who| world.kernel.all[who].number)
                .collect::<Vec<_>>()
        });
        numbers.sort_unstable();
        numbers.into_iter().for_each(&mut take);
        Ok(())
    }

    fn runnable() -> Option<u32> {
        in_world(|world| Some(if world.settings.crowded { 500 } else { 1 }))
    }

    fn group_of(pid: Pid) -> Option<GroupId> {
        call("asks for the group of", pid.number(), |world| {
            let who = world.kernel.find(pid.number())?;
            GroupId::new(world.kernel.all[world.kernel.all[who].group].number)
        })
    }

    fn session_of(pid: Pid) -> Option<u32> {
        call("asks for the session of", pid.number(), |world| {
            let who = world.kernel.find(pid.number())?;
            Some(world.kernel.all[world.kernel.all[who].session].number)
        })
    }

    fn kill(pid: Pid, signal: Signal) -> Result<(), Errno> {
        call("kill", pid.number(), |world| {
            if world.in_force {
                world.broken("a number was signalled with the helper's right");
            }
            let who = world.kernel.find(pid.number()).ok_or(Errno::ESRCH)?;
            world.deliver(&[who], signal)
        })
    }

    fn kill_group(group: GroupId, signal: Signal) -> Result<(), Errno> {
        call("kill group", group.number(), |world| {
            world.deliver_group(group, signal)
        })
    }

    fn probe(pid: Pid) -> Result<(), Errno> {
        call("probe", pid.number(), |world| {
            let who = world.kernel.find(pid.number()).ok_or(Errno::ESRCH)?;
            match world.kernel.all[who].foreign {
                true => Err(Errno::EPERM),
                false => Ok(()),
            }
        })
    }

    fn pidfd_open(pid: u32) -> Result<OwnedFd, Errno> {
        call("opens", pid, |world| match world.settings.lacks_pidfds {
            true => Err(Errno::ENOSYS),
            false => world.open(pid),
        })
    }

    fn pidfd_copy(pidfd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        in_world(|world| world.open_again(pidfd.raw()))
    }

    fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
        call("signals by descriptor", 0, |world| {
            let who = world.meant_by(pidfd.raw());
            if world.in_force && world.kernel.all[who].parent != HELPER {
                world.broken("the helper's right was used on somebody who is not its child");
            }
            world.deliver(&[who], signal)
        })
    }

    fn pidfd_signal_group(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
        call("signals a group by descriptor", 0, |world| {
            let members = world.kernel.group(world.meant_by(pidfd.raw()));
            world.deliver(&members, signal)
        })
    }

    fn pidfd_parent(pidfd: BorrowedFd<'_>) -> Result<u32, Errno> {
        call("asks a descriptor for the parent", 0, |world| {
            let it = &world.kernel.all[world.meant_by(pidfd.raw())];
            match it.is_there() {
                true => Ok(world.kernel.all[it.parent].number),
                false => Err(Errno::ESRCH),
            }
        })
    }

    fn pidfd_status(pidfd: BorrowedFd<'_>) -> Result<Option<i32>, Errno> {
        call("asks a descriptor for the end", 0, |world| {
            let status = |how| match how {
                EndKind::Exited { code } => code << 8,
                EndKind::Killed { signal, core } => signal | if core { 0x80 } else { 0 },
            };
            Ok(match world.kernel.all[world.meant_by(pidfd.raw())].life {
                Life::Gone(how) => Some(status(how)),
                Life::Lives | Life::Ended(_) => None,
            })
        })
    }

    fn pidfd_inode(pidfd: BorrowedFd<'_>) -> Option<u64> {
        in_world(|world| u64::try_from(world.meant_by(pidfd.raw())).ok())
    }

    fn set_real_time() -> Result<(), Errno> {
        Ok(())
    }

    fn set_ordinary() -> Result<(), Errno> {
        Ok(())
    }

    fn has_authority() -> bool {
        in_world(|world| world.settings.has_authority)
    }

    fn put_authority_in_force(on: bool) -> Result<(), Errno> {
        call("puts its right in force", u32::from(on), |world| {
            world.in_force = on
        });
        Ok(())
    }

    fn drop_capabilities() -> Result<(), Errno> {
        Ok(())
    }
}

fn not_made(errno: Errno) -> LaunchFailure {
    LaunchFailure {
        stage: Stage::Fork,
        errno: errno.raw(),
        subject: Vec::new().into(),
    }
}

fn make_namespace(world: &mut World) -> Result<Namespace, Errno> {
    let (lifeline, theirs) = socketpair(SocketKind::Records)?;
    let init = world.spawned_init(theirs).ok_or(Errno::EAGAIN)?;
    let (number, pidfd) = as_child(world, init);
    Ok(Namespace::new(number, pidfd, lifeline, 4_026_531_836))
}

fn as_child(world: &mut World, who: Who) -> (Pid, Option<OwnedFd>) {
    let number = world.kernel.all[who].number;
    let pidfd = match world.settings.lacks_pidfds {
        true => None,
        false => world.open(number).ok(),
    };
    (Pid::new(number).expect("numbers begin at 3"), pidfd)
}

fn our_child(world: &World, child: Pid) -> Result<Who, Errno> {
    let who = world.kernel.find(child.number()).ok_or(Errno::ECHILD)?;
    match world.kernel.all[who].parent == HELPER && who != HELPER {
        true => Ok(who),
        false => Err(Errno::ECHILD),
    }
}

fn how_ended(world: &World, who: Who) -> Option<Ended> {
    let it = &world.kernel.all[who];
    let how = it.is_waitable().then(|| it.end()).flatten()?;
    let is_lie = world.lie == Some(Lie::OtherExit) && world.kernel.root == Some(who);
    Some(Ended {
        pid: it.number,
        how: if is_lie {
            EndKind::Exited { code: 77 }
        } else {
            how
        },
    })
}

fn numbers(world: &World, parent: Who) -> Vec<u32> {
    let children = world.kernel.children(parent).into_iter();
    children.map(|who| world.kernel.all[who].number).collect()
}

fn is_hidden(world: &World, who: Who) -> bool {
    world.settings.hides && world.kernel.all[who].foreign && who != OUTSIDE
}

fn describe(world: &World, who: Who) -> Descendant {
    let it = &world.kernel.all[who];
    let number = |who: Who| world.kernel.all[who].number;
    let before = former(world, who);
    Descendant {
        pid: it.number,
        parent: number(before.map_or(it.parent, |_| HELPER)),
        group: number(it.group),
        session: number(it.session),
        start_ticks: before.unwrap_or(it).start_ticks,
        state: it.state(),
        threads: it.threads(),
    }
}

/// In a world that lies so, the member of the tree that a stranger looks like.
fn former(world: &World, who: Who) -> Option<&Process> {
    let it = &world.kernel.all[who];
    let is_lied_about = it.kin == Kin::Stranger && world.lie == Some(Lie::LooksLikeBefore);
    let is_former = |other: &&Process| other.kin == Kin::Member && other.number == it.number;
    let mut former = world.kernel.all.iter().rev().filter(is_former);
    is_lied_about.then(|| former.next()).flatten()
}

/// A walk from parents to children, between whose steps the tree moves.
struct Walk<'a> {
    groups: &'a BTreeSet<u32>,
    seen: BTreeSet<Who>,
    to_visit: Vec<Who>,
    listing: Listing,
}

impl<'a> Walk<'a> {
    fn new(groups: &'a BTreeSet<u32>) -> Self {
        Self {
            groups,
            seen: BTreeSet::new(),
            to_visit: Vec::new(),
            listing: Listing {
                processes: Vec::new(),
                hidden: Vec::new(),
                way: Way::Children,
                complete: true,
            },
        }
    }

    fn visit(&mut self, world: &World, parent: Who) {
        for who in world.kernel.children(parent) {
            if !self.seen.insert(who) {
                continue;
            }
            self.to_visit.push(who);
            let seen = describe(world, who);
            if is_hidden(world, who) {
                let parent = world.kernel.all[parent].number;
                self.listing.hidden.push(Hidden {
                    pid: seen.pid,
                    parent,
                });
            } else if !self.groups.contains(&seen.group) {
                self.listing.processes.push(seen);
            }
        }
    }
}
