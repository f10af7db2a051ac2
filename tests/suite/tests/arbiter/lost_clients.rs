//! Clients that are killed at any moment: what they asked for alone ends, what they let go of goes on.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::json;
use xioflow_kernel::journal::{Operation, OperationStatus, Outcome, Query, Stream};
use xioflow_kernel::{Attachment, Domain, DomainOptions, Piece};
use xioflow_kit::{Chance, Deadline, Stage, wait};

use crate::client::{Orders, say, shell, start};
use crate::serving::Serving;
use crate::{number, record, recorded};

/// Clients that are killed; `XIOFLOW_TEST_KILLS` says otherwise.
const KILLS: usize = 200;
/// How long an operation goes on without its client here.
const GRACE: Duration = Duration::from_millis(150);
/// When a client is killed at the latest: it is where it can be by then, on an idle machine.
const MOMENTS: Duration = Duration::from_millis(80);
/// What each prints before it waits, more than a pipe holds, and after.
const EARLY_LINES: usize = 20_000;

/// One client: submits one operation, says when it runs, and waits for its end.
pub(crate) fn client(orders: &Orders) {
    let domain = orders.attach();
    let script = match orders.is("detached") {
        true => format!(
            "seq {EARLY_LINES}; read line <{}; echo $line",
            orders.text("gate")
        ),
        false => format!("seq {EARLY_LINES}; sleep 600"),
    };
    let mut operation = domain.operation(shell(&script)).expect("a builder");
    let _output = operation.subscribe();
    let ended = operation
        .id(orders.text("id"))
        .detached(orders.is("detached"))
        .when_active(|_| say(&json!({ "runs": true })))
        .run();
    panic!("nobody ends it before this client: {ended:?}");
}

/// One that was killed.
struct Victim {
    id: String,
    detached: bool,
    /// It was killed after it had said that its operation runs.
    ran: bool,
    killed_at_ms: u128,
}

#[test]
fn killed_clients_lose_what_only_they_wait_for_and_nothing_else() {
    let stage = Stage::new();
    let kills = number("XIOFLOW_TEST_KILLS", KILLS);
    let (arbiter, mut moments) = (serve(&stage), Chance::new());
    let victims: Vec<_> = (0..kills)
        .map(|turn| kill_one(&stage, turn, &mut moments))
        .collect();
    let options = DomainOptions::default();
    let domain = options.open(stage.domain()).expect("an arbiter");
    in_flight_are_only(&domain, "detached");
    let on_record = recorded(&stage);
    for victim in &victims {
        match (on_record.get(&victim.id), victim.detached) {
            // It was killed before its words were there.
            (None, _) => assert!(!victim.ran, "{} is not on record", victim.id),
            (Some(operation), false) => assert_lost(operation, victim),
            (Some(_), true) => assert_goes_on(&stage, &domain, &victim.id),
        }
    }
    eprintln!("{} of {kills} on record", on_record.len());
    in_flight_are_only(&domain, "none at all");
    assert_eq!(record(&stage).leases().expect("readable"), []);
    drop(domain);
    arbiter.end();
}

/// Waits until nothing is executed but what has an id that begins so.
fn in_flight_are_only(domain: &Domain, prefix: &str) {
    wait::until("the end of the others", Deadline::usual(), || {
        let in_flight = domain.in_flight().expect("it answers");
        in_flight
            .iter()
            .all(|it| it.operation_id.starts_with(prefix))
    });
}

fn serve(stage: &Stage) -> Serving<'_> {
    let grace = format!("{}ms", GRACE.as_millis());
    Serving::start(stage, &["--client-grace", &grace])
}

/// Kills a client: half of them at any moment from their first, the others once their operation runs.
fn kill_one(stage: &Stage, turn: usize, moments: &mut Chance) -> Victim {
    let (detached, waits) = (turn % 2 == 1, turn % 4 < 2);
    let id = format!("{}-{turn}", if detached { "detached" } else { "attached" });
    let gate = stage.path(format!("gate-{turn}"));
    make_gate(stage, &gate);
    let orders = json!({ "id": id, "detached": detached, "gate": gate });
    let mut client = start(stage, "victim", &orders, Deadline::USUAL);
    if waits {
        client.wait_for_output(b"runs");
    }
    // Its end would be seen here, and is a fault.
    let moment = Deadline::after(moments.within(MOMENTS));
    assert!(!wait::pid_gone(client.pid(), moment), "{id} has ended");
    let ran = client.has_printed(b"runs");
    let killed_at_ms = now_ms();
    client.signal(Signal::KILL);
    assert_eq!(client.finish().status.code(), None);
    Victim {
        id,
        detached,
        ran,
        killed_at_ms,
    }
}

/// A pipe with a name, so that a command waits until somebody opens it.
fn make_gate(stage: &Stage, path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
    stage.give_to_user(path);
}

fn now_ms() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("later than 1970").as_millis()
}

fn assert_lost(operation: &Operation, victim: &Victim) {
    let id = &victim.id;
    assert_eq!(operation.status, OperationStatus::Done, "{id}");
    assert_eq!(operation.outcome, Some(Outcome::Cancelled), "{id}");
    let result = operation.result.as_ref().expect("a result");
    assert_eq!(result["terminationReason"], "client_lost", "{id}");
    let ended_at_ms = u128::try_from(operation.finished_at_ms.expect("it ended"));
    let lived_ms = ended_at_ms.expect("later than 1970") - victim.killed_at_ms;
    assert!(lived_ms >= GRACE.as_millis(), "{id} had {lived_ms} ms");
}

/// Attaches to it, lets it go on, and sees all of it.
fn assert_goes_on(stage: &Stage, domain: &Domain, id: &str) {
    let turn = id.trim_start_matches("detached-");
    let mut attachment = domain
        .attach(id)
        .unwrap_or_else(|error| panic!("{id}: {error:?}"));
    // Opened for both, so that it does not matter who is first.
    let gate = stage.path(format!("gate-{turn}"));
    let gate = File::options().read(true).write(true).open(gate);
    let mut gate = gate.expect("a named pipe of the stage");
    gate.write_all(b"late\n").expect("room in a pipe");
    let seen = all_of(&mut attachment);
    let early = (1..=EARLY_LINES).map(|number| format!("{number}\n"));
    let expected: String = early.chain(["late\n".to_owned()]).collect();
    assert!(seen == expected.as_bytes(), "{id}: {} bytes", seen.len());
    let result = attachment.wait().expect("a result");
    assert_eq!(
        (result.status, result.exit_code),
        (Outcome::Succeeded, Some(0)),
        "{id}"
    );
}

/// What an operation prints to standard output, from the beginning to its end.
fn all_of(attachment: &mut Attachment) -> Vec<u8> {
    let output = attachment.take_subscription();
    let mut seen = Vec::new();
    while let Some(piece) = output.next_piece() {
        match piece {
            Piece::Data {
                stream: Stream::Stdout,
                bytes,
                ..
            } => seen.extend_from_slice(&bytes),
            other => panic!("an arbiter fills every gap: {other:?}"),
        }
    }
    seen
}
