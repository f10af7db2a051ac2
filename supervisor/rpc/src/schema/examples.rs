//! One line of everything, as it is on the wire. A test reads each as the type that it is of.

use crate::method::{Method, Notice};

/// The parameters of a request, as JSON.
#[must_use]
pub fn request_example(method: Method) -> &'static str {
    match method {
        Method::Hello => r#"{"protocol":1,"release":"0.1.0","client":"xioflow run"}"#,
        Method::Shutdown => r#"{"running":"refuse"}"#,
        Method::Status | Method::LastReport | Method::Loads => "{}",
        Method::SaveTask => r#"{"name":"nightly build","meta":{"branch":"main"}}"#,
        Method::OpenRun => r#"{"name":"nightly build","config":{"targets":["all"]}}"#,
        Method::FindRun => r#"{"runId":"run-1"}"#,
        Method::ReportRun => r#"{"runId":"run-1","status":"succeeded"}"#,
        Method::ExecProcess => {
            r#"{"operationId":"build-7","command":{"program":"make","args":["-j4","all"],"inheritEnv":true},"caller":{"folder":"/srv/build","variables":[["PATH","/usr/bin:/bin"]],"umask":18},"timeoutMs":600000,"leases":["tree"],"waitMs":10000,"output":"descriptors","descriptors":["stdout","stderr"]}"#
        }
        Method::Attach => {
            r#"{"operationId":"build-7","output":"descriptors","descriptors":["stdout","stderr"]}"#
        }
        Method::Cancel => r#"{"operationId":"build-7","manner":"interrupt","graceMs":5000}"#,
        Method::Stop => r#"{"request":4,"manner":"terminate","graceMs":2000}"#,
        Method::Suspend | Method::Resume => r#"{"request":4}"#,
        Method::Pause | Method::Unpause => r#"{"operationId":"build-7"}"#,
        Method::CloseStream => r#"{"request":4,"stream":"stdout"}"#,
        Method::Adjudicate => {
            r#"{"operationId":"build-7","verdict":"confirmed_stopped","actor":"jo","note":"looked by hand"}"#
        }
        Method::GetOperation => r#"{"operationId":"build-7"}"#,
        Method::ListOperations => r#"{"limit":10,"unfinished":true}"#,
        Method::ReadOutput => {
            r#"{"operationId":"build-7","stream":"stdout","from":0,"maxBytes":65536}"#
        }
        Method::Prune => r#"{"maxAgeMs":604800000,"maxBytes":1073741824,"dryRun":true}"#,
        Method::ReadEvents => r#"{"after":120,"limit":100,"operationId":"build-7"}"#,
        Method::Subscribe => r#"{"after":120}"#,
    }
}

/// The result that the answer to it has, as JSON.
#[must_use]
pub fn answer_example(method: Method) -> &'static str {
    match method {
        Method::Hello => {
            r#"{"protocol":1,"release":"0.1.0","pid":4711,"startedAt":"2026-11-30T12:00:00.000Z"}"#
        }
        Method::Shutdown => r#"{"operations":0}"#,
        Method::Status => {
            r#"{"pid":4711,"release":"0.1.0","startedAt":"2026-11-30T12:00:00.000Z","idleMs":30000,"shuttingDown":false,"connections":1,"inFlight":[{"operationId":"build-7","runId":"run-1","clients":1,"detached":false}],"artifactBytes":4096,"artifactMaxBytes":34359738368}"#
        }
        Method::SaveTask => r#"{"taskId":"task-1"}"#,
        Method::OpenRun | Method::FindRun => r#"{"runId":"run-1"}"#,
        Method::ReportRun => r#"{"status":"succeeded"}"#,
        Method::ExecProcess => r#"{"operationId":"build-7","runId":"run-1","joined":false}"#,
        Method::Attach => r#"{"operationId":"build-7","runId":"run-1","joined":true}"#,
        Method::Cancel | Method::Stop | Method::Suspend | Method::Resume | Method::CloseStream => {
            "{}"
        }
        Method::Loads => {
            r#"{"operations":[{"operationId":"build-7","name":"make","state":"running","ageMs":61000,"tasks":9,"memoryBytes":734003200,"cpuMs":212000,"ioReadBytes":null,"ioWriteBytes":null,"isComplete":true,"limits":{"maxMemoryBytes":2147483648,"enforcement":"hard"}}]}"#
        }
        Method::Pause => r#"{"paused":"freeze","changed":true,"timeoutLeftMs":540000}"#,
        Method::Unpause => r#"{"paused":null,"changed":true,"timeoutLeftMs":540000}"#,
        Method::Adjudicate => {
            r#"{"operationId":"build-7","verdict":"confirmed_stopped","actor":"jo","note":"looked by hand","residualPids":[],"decidedAtMs":1796040000000}"#
        }
        Method::GetOperation => r#"{"operationId":"build-7","status":"active"}"#,
        Method::ListOperations => r#"{"operations":[{"operationId":"build-7","status":"active"}]}"#,
        Method::ReadOutput => r#"{"base64":"b2sK","len":3,"complete":true,"gap":null}"#,
        Method::Prune => {
            r#"{"dryRun":true,"removed":[{"operationId":"build-1","stream":"stdout","artifact":"build-1-stdout.log","bytes":70000,"reason":"age"}],"removedTotal":{"files":1,"bytes":70000},"leftovers":{"files":0,"bytes":0},"kept":{"unfinished":{"files":0,"bytes":0},"indeterminate":{"files":0,"bytes":0},"openRun":{"files":0,"bytes":0}},"obstacles":[],"obstaclesTotal":0,"missingTotal":0,"unknown":[],"unknownTotal":{"files":0,"bytes":0},"bytesBefore":70000,"bytesAfter":0}"#
        }
        Method::LastReport => {
            r#"{"decisions":[{"operationId":"build-6","case":"A","verdict":"settled_by_last_word","status":"failed","leases":"freed","evidence":"the helper left its last word; the helper is gone, the command is gone","signalled":[],"stdoutBytes":120,"stderrBytes":null,"guidance":null}]}"#
        }
        Method::ReadEvents => {
            r#"{"events":[{"seq":121,"type":"OPERATION_STATUS_TRANSITION","operationId":"build-7"}],"after":121}"#
        }
        Method::Subscribe => r#"{"after":120}"#,
    }
}

/// The news of a notice, as JSON.
#[must_use]
pub fn notice_example(notice: Notice) -> &'static str {
    match notice {
        Notice::Chunk => r#"{"request":4,"stream":"stdout","offset":0,"base64":"b2sK"}"#,
        Notice::Gap => r#"{"request":4,"stream":"stdout","from":3,"to":70003,"why":null}"#,
        Notice::Result => {
            r#"{"request":4,"operationId":"build-7","result":{"operationId":"build-7","status":"succeeded","exitCode":0},"outputOmitted":false}"#
        }
        Notice::Event => {
            r#"{"event":{"seq":122,"type":"OPERATION_RESULT_RECORDED","operationId":"build-7"}}"#
        }
    }
}
