-- Version 1: who owns the domain, what ran in it, who holds what, and what happened.
--
-- Times are milliseconds since 1970 and for people. Text named *_json is JSON that belongs to
-- another part of the system; nothing here looks inside it.

-- One row for the life of the domain. It is never deleted, so the epoch cannot start again.
CREATE TABLE owners (
    domain_id       TEXT PRIMARY KEY NOT NULL,
    owner_id        TEXT NOT NULL,
    epoch           INTEGER NOT NULL CHECK (epoch >= 1),
    pid             INTEGER NOT NULL,
    hostname        TEXT NOT NULL,
    acquired_at_ms  INTEGER NOT NULL,
    released_at_ms  INTEGER
) STRICT, WITHOUT ROWID;

CREATE TRIGGER owners_are_kept BEFORE DELETE ON owners BEGIN
    SELECT RAISE(ABORT, 'an owner row is never deleted');
END;

CREATE TRIGGER epochs_only_grow BEFORE UPDATE ON owners WHEN new.epoch < old.epoch BEGIN
    SELECT RAISE(ABORT, 'an epoch never decreases');
END;

CREATE TABLE tasks (
    id             TEXT PRIMARY KEY NOT NULL,
    name           TEXT NOT NULL,
    created_at_ms  INTEGER NOT NULL,
    meta_json      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `ordinal` is the order of arrival; unlike a wall clock it never goes back.
CREATE TABLE runs (
    ordinal             INTEGER PRIMARY KEY,
    id                  TEXT NOT NULL UNIQUE,
    task_id             TEXT NOT NULL REFERENCES tasks (id),
    owner               TEXT NOT NULL,
    status              TEXT NOT NULL CHECK (status IN (
                            'queued', 'starting', 'running', 'stopping',
                            'succeeded', 'failed', 'cancelled', 'indeterminate')),
    termination_reason  TEXT CHECK (termination_reason IN (
                            'completed', 'user_cancelled', 'timed_out', 'resource_preempted',
                            'crash_detected', 'exit_unobserved', 'memory_exceeded', 'cpu_exceeded',
                            'pids_exceeded', 'output_exceeded', 'client_lost')),
    started_at_ms       INTEGER NOT NULL,
    ended_at_ms         INTEGER,
    config_json         TEXT NOT NULL
) STRICT;

-- Partial: each index costs every commit a page, and only what is unfinished is looked for.
CREATE INDEX runs_unfinished ON runs (status)
    WHERE status IN ('queued', 'starting', 'running', 'stopping');

CREATE TRIGGER ended_runs_stay BEFORE UPDATE OF status ON runs
WHEN old.status IN ('succeeded', 'failed', 'cancelled', 'indeterminate') AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a Run that has ended keeps its status');
END;

CREATE TABLE operations (
    ordinal                INTEGER PRIMARY KEY,
    id                     TEXT NOT NULL UNIQUE,
    run_id                 TEXT NOT NULL REFERENCES runs (id),
    kind                   TEXT NOT NULL CHECK (kind IN (
                               'process', 'filesystem', 'gate', 'custom', 'service', 'snapshot', 'rollback')),
    name                   TEXT NOT NULL,
    input_fingerprint      TEXT NOT NULL,
    status                 TEXT NOT NULL CHECK (status IN (
                               'pending', 'intent_registered', 'active', 'stopping', 'done')),
    required_resources_json TEXT NOT NULL,
    mutation_roots_json    TEXT NOT NULL,
    capability_id          TEXT,
    timeout_ms             INTEGER CHECK (timeout_ms >= 0),
    resource_budget_json   TEXT,
    output_ref             TEXT,
    process_identity_json  TEXT,
    holder_json            TEXT,
    spawn_gated            INTEGER CHECK (spawn_gated IN (0, 1)),
    created_at_ms          INTEGER NOT NULL,
    finished_at_ms         INTEGER,
    outcome                TEXT CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'indeterminate')),
    result_json            TEXT,
    -- A result is there exactly when the operation is done.
    CHECK ((status = 'done') = (outcome IS NOT NULL)),
    CHECK ((outcome IS NULL) = (result_json IS NULL)),
    CHECK ((outcome IS NULL) = (finished_at_ms IS NULL))
) STRICT;

CREATE INDEX operations_by_run ON operations (run_id);
CREATE INDEX operations_unfinished ON operations (status) WHERE status <> 'done';

CREATE TABLE operation_outputs (
    operation_id  TEXT NOT NULL REFERENCES operations (id),
    stream        TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
    total_bytes   INTEGER NOT NULL CHECK (total_bytes >= 0),
    sha256        TEXT,
    artifact      TEXT,
    content       BLOB,
    spill_error   TEXT,
    PRIMARY KEY (operation_id, stream)
) STRICT, WITHOUT ROWID;

-- A file holds the output of one stream, so that pruning one cannot take another's.
CREATE UNIQUE INDEX outputs_by_artifact ON operation_outputs (artifact) WHERE artifact IS NOT NULL;

-- The primary key is the rule: a resource has one holder or none.
CREATE TABLE resource_leases (
    resource_id     TEXT PRIMARY KEY NOT NULL,
    operation_id    TEXT NOT NULL REFERENCES operations (id),
    acquired_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX leases_by_operation ON resource_leases (operation_id);

-- No foreign keys: the record outlives the rows that it speaks of. AUTOINCREMENT: a position
-- is not given out twice, even if later releases prune the newest rows.
CREATE TABLE journal_events (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id        TEXT,
    operation_id  TEXT,
    type          TEXT NOT NULL,
    payload_json  TEXT NOT NULL,
    timestamp_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX events_by_operation ON journal_events (operation_id) WHERE operation_id IS NOT NULL;

CREATE TRIGGER events_are_not_rewritten BEFORE UPDATE ON journal_events BEGIN
    SELECT RAISE(ABORT, 'journal events are append-only');
END;

CREATE TRIGGER events_are_kept BEFORE DELETE ON journal_events BEGIN
    SELECT RAISE(ABORT, 'journal events are append-only');
END;
