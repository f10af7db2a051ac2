//! The journal's events: their names, their payloads, and appending one. Names and keys are a
//! contract with everybody who reads the record.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::Value;

use crate::model::{
    Adjudication, OperationKind, OperationStatus, Owner, PauseMeans, PruneReason, ReplayMode,
    RunStatus, Stream, TerminationReason,
};

/// The type of the event that says that the stop action of an operation has a process.
pub const STOP_ACTION_BEGUN: &str = "STOP_ACTION_BEGUN";

/// What happened, with its facts.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Fact<'a> {
    #[serde(rename_all = "camelCase")]
    IntentRegistered {
        kind: OperationKind,
        name: &'a str,
        required_resources: &'a [String],
        input_fingerprint: &'a str,
        resource_budget: Option<&'a Value>,
        spawn_gated: Option<bool>,
    },
    #[serde(rename_all = "camelCase")]
    OperationStatus {
        status: OperationStatus,
        process_identity: Option<&'a Value>,
        output_ref: Option<&'a str>,
        /// Why it is being stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<TerminationReason>,
    },
    Paused {
        means: PauseMeans,
    },
    Resumed {
        /// By what it had stood still.
        means: PauseMeans,
    },
    #[serde(rename_all = "camelCase")]
    StopActionBegun {
        process_identity: &'a Value,
        holder: &'a Value,
    },
    #[serde(rename_all = "camelCase")]
    ResultRecorded {
        result: &'a Value,
        release_resources: bool,
    },
    #[serde(rename_all = "camelCase")]
    Replayed {
        mode: ReplayMode,
        op_id: &'a str,
        calling_run_id: &'a str,
        original_run_id: &'a str,
        original_status: OperationStatus,
    },
    #[serde(rename_all = "camelCase")]
    Adjudicated {
        operation_id: &'a str,
        #[serde(flatten)]
        adjudication: &'a Adjudication,
        /// Whose end it was about; null where that was never known.
        process_identity: Option<&'a Value>,
    },
    #[serde(rename_all = "camelCase")]
    OutputPruned {
        stream: Stream,
        artifact: &'a str,
        /// How much the file held; null where a storage error left that unknown.
        bytes: Option<u64>,
        sha256: Option<&'a str>,
        reason: PruneReason,
    },
    /// The record that follows is no longer that of the file that it was copied from.
    #[serde(rename_all = "camelCase")]
    DomainCopied {
        /// The owner that wrote the file that this one is a copy of, as far as it is known here.
        of: &'a Owner,
    },
    /// Changes that an owner recorded last may be lost, because its log was not there.
    #[serde(rename_all = "camelCase")]
    DomainLogMissing {
        /// The owner that had not left in order.
        of: &'a Owner,
    },
    /// The owner's processes, and whoever is beside them, are about to leave their control group.
    #[serde(rename_all = "camelCase")]
    HostMoving {
        group: &'a str,
        controllers: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    HostMoved {
        group: &'a str,
        processes: u32,
    },
    #[serde(rename_all = "camelCase")]
    ResourcesReleased {
        operation_id: &'a str,
        resources: &'a [String],
    },
    #[serde(rename_all = "camelCase")]
    RunStatus {
        status: RunStatus,
        termination_reason: TerminationReason,
        ended_at: String,
    },
}

impl Fact<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::IntentRegistered { .. } => "OPERATION_INTENT_REGISTERED",
            Self::OperationStatus { .. } => "OPERATION_STATUS_TRANSITION",
            Self::Paused { .. } => "OPERATION_PAUSED",
            Self::Resumed { .. } => "OPERATION_RESUMED",
            Self::StopActionBegun { .. } => STOP_ACTION_BEGUN,
            Self::ResultRecorded { .. } => "OPERATION_RESULT_RECORDED",
            Self::Replayed { .. } => "OPERATION_REPLAYED",
            Self::Adjudicated { .. } => "OPERATION_ADJUDICATED",
            Self::OutputPruned { .. } => "OUTPUT_PRUNED",
            Self::DomainCopied { .. } => "DOMAIN_COPIED",
            Self::DomainLogMissing { .. } => "DOMAIN_LOG_MISSING",
            Self::HostMoving { .. } => "HOST_MOVING",
            Self::HostMoved { .. } => "HOST_MOVED",
            Self::ResourcesReleased { .. } => "RESOURCES_RELEASED",
            Self::RunStatus { .. } => "RUN_STATUS_TRANSITION",
        }
    }
}

/// What an event is about.
pub(crate) struct Subject<'a> {
    pub(crate) run_id: Option<&'a str>,
    pub(crate) operation_id: Option<&'a str>,
}

/// Neither a Run nor an operation.
pub(crate) const OF_DOMAIN: Subject<'static> = Subject {
    run_id: None,
    operation_id: None,
};

/// Appends an event; returns its position.
pub(crate) fn append(
    connection: &Connection,
    subject: &Subject<'_>,
    fact: &Fact<'_>,
    now_ms: i64,
) -> rusqlite::Result<i64> {
    let payload = serde_json::to_string(fact)
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    let sql = "INSERT INTO journal_events (run_id, operation_id, type, payload_json, timestamp_ms)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(sql)?.insert(params![
        subject.run_id,
        subject.operation_id,
        fact.name(),
        payload,
        now_ms
    ])
}

/// Appends an event that is about no operation and no Run.
pub(crate) fn append_of_domain(
    connection: &Connection,
    fact: &Fact<'_>,
    now_ms: i64,
) -> rusqlite::Result<i64> {
    append(connection, &OF_DOMAIN, fact, now_ms)
}
