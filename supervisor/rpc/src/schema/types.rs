//! The types of every method and notice, once for all who go through them.

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::domain::{
    FindRun, LastReport, LastReportOf, OpenRun, ReportRun, RunOpen, RunReported, SaveTask, Status,
    StatusOf, TaskSaved,
};
use crate::journal::{
    EventNotice, Events, GetOperation, ListOperations, Operations, ReadEvents, Subscribe,
    Subscribed,
};
use crate::kernel::{Hello, Shutdown, ShutdownBegun, Welcome};
use crate::method::{Method, Notice};
use crate::operation::{
    Accepted, Attach, Cancel, Chunk, CloseStream, Done, Ended, ExecProcess, Gap, JobControl, Loads,
    LoadsOf, OutputRead, Pause, ReadOutput, Standing, Stop,
};
use crate::upkeep::{Adjudicate, Adjudicated, Prune, Pruned};

/// A type that is said.
pub trait Wire: Serialize + DeserializeOwned + JsonSchema + PartialEq + Debug {}

impl<T: Serialize + DeserializeOwned + JsonSchema + PartialEq + Debug> Wire for T {}

/// Does something with the two types of a method.
pub trait VisitMethod {
    /// What comes of it.
    type Out;

    /// `P` are its parameters, `R` is its result.
    fn visit<P: Wire, R: Wire>(self) -> Self::Out;
}

/// Does something with the type of a notice.
pub trait VisitNotice {
    /// What comes of it.
    type Out;

    /// `P` is the news.
    fn visit<P: Wire>(self) -> Self::Out;
}

/// Hands the types of `method` to `with`. A new method has to have its place here.
pub fn of_method<V: VisitMethod>(method: Method, with: V) -> V::Out {
    match method {
        Method::Hello => with.visit::<Hello, Welcome>(),
        Method::Shutdown => with.visit::<Shutdown, ShutdownBegun>(),
        Method::Status => with.visit::<StatusOf, Status>(),
        Method::SaveTask => with.visit::<SaveTask, TaskSaved>(),
        Method::OpenRun => with.visit::<OpenRun, RunOpen>(),
        Method::FindRun => with.visit::<FindRun, RunOpen>(),
        Method::ReportRun => with.visit::<ReportRun, RunReported>(),
        Method::ExecProcess => with.visit::<ExecProcess, Accepted>(),
        Method::Attach => with.visit::<Attach, Accepted>(),
        Method::Cancel => with.visit::<Cancel, Done>(),
        Method::Stop => with.visit::<Stop, Done>(),
        Method::Suspend | Method::Resume => with.visit::<JobControl, Done>(),
        Method::Loads => with.visit::<LoadsOf, Loads>(),
        Method::Pause | Method::Unpause => with.visit::<Pause, Standing>(),
        Method::CloseStream => with.visit::<CloseStream, Done>(),
        Method::Adjudicate => with.visit::<Adjudicate, Adjudicated>(),
        Method::GetOperation => with.visit::<GetOperation, Map<String, Value>>(),
        Method::ListOperations => with.visit::<ListOperations, Operations>(),
        Method::ReadOutput => with.visit::<ReadOutput, OutputRead>(),
        Method::Prune => with.visit::<Prune, Pruned>(),
        Method::LastReport => with.visit::<LastReportOf, LastReport>(),
        Method::ReadEvents => with.visit::<ReadEvents, Events>(),
        Method::Subscribe => with.visit::<Subscribe, Subscribed>(),
    }
}

/// Hands the type of `notice` to `with`.
pub fn of_notice<V: VisitNotice>(notice: Notice, with: V) -> V::Out {
    match notice {
        Notice::Chunk => with.visit::<Chunk>(),
        Notice::Gap => with.visit::<Gap>(),
        Notice::Result => with.visit::<Ended>(),
        Notice::Event => with.visit::<EventNotice>(),
    }
}
