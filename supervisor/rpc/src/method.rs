//! The names of everything that can be asked and told, each with its types.

use std::fmt;

macro_rules! names {
    ($(#[$about:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $enum { $($(#[$doc])* $variant,)* }

        impl $enum {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in a message.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The one of this name.
            #[must_use]
            pub fn of(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names! {
    /// What a client can ask.
    Method {
        /// [`crate::kernel::Hello`] to [`crate::kernel::Welcome`].
        Hello = "kernel.hello",
        /// [`crate::kernel::Shutdown`] to [`crate::kernel::ShutdownBegun`].
        Shutdown = "kernel.shutdown",
        /// [`crate::domain::StatusOf`] to [`crate::domain::Status`].
        Status = "domain.status",
        /// [`crate::domain::SaveTask`] to [`crate::domain::TaskSaved`].
        SaveTask = "task.save",
        /// [`crate::domain::OpenRun`] to [`crate::domain::RunOpen`].
        OpenRun = "run.open",
        /// [`crate::domain::FindRun`] to [`crate::domain::RunOpen`].
        FindRun = "run.find",
        /// [`crate::domain::ReportRun`] to [`crate::domain::RunReported`].
        ReportRun = "run.report",
        /// [`crate::operation::ExecProcess`] to [`crate::operation::Accepted`].
        ExecProcess = "op.execProcess",
        /// [`crate::operation::Attach`] to [`crate::operation::Accepted`].
        Attach = "op.attach",
        /// [`crate::operation::Cancel`] to [`crate::operation::Done`].
        Cancel = "op.cancel",
        /// [`crate::operation::Stop`] to [`crate::operation::Done`].
        Stop = "op.stop",
        /// [`crate::operation::JobControl`] to [`crate::operation::Done`].
        Suspend = "op.suspend",
        /// [`crate::operation::JobControl`] to [`crate::operation::Done`].
        Resume = "op.resume",
        /// [`crate::operation::LoadsOf`] to [`crate::operation::Loads`].
        Loads = "op.loads",
        /// [`crate::operation::Pause`] to [`crate::operation::Standing`].
        Pause = "op.pause",
        /// [`crate::operation::Pause`] to [`crate::operation::Standing`].
        Unpause = "op.unpause",
        /// [`crate::operation::CloseStream`] to [`crate::operation::Done`].
        CloseStream = "op.closeStream",
        /// [`crate::upkeep::Adjudicate`] to [`crate::upkeep::Adjudicated`].
        Adjudicate = "op.adjudicate",
        /// [`crate::journal::GetOperation`] to an object.
        GetOperation = "op.get",
        /// [`crate::journal::ListOperations`] to [`crate::journal::Operations`].
        ListOperations = "op.list",
        /// [`crate::operation::ReadOutput`] to [`crate::operation::OutputRead`].
        ReadOutput = "artifacts.read",
        /// [`crate::upkeep::Prune`] to [`crate::upkeep::Pruned`].
        Prune = "artifacts.prune",
        /// [`crate::domain::LastReportOf`] to [`crate::domain::LastReport`].
        LastReport = "recovery.lastReport",
        /// [`crate::journal::ReadEvents`] to [`crate::journal::Events`].
        ReadEvents = "journal.read",
        /// [`crate::journal::Subscribe`] to [`crate::journal::Subscribed`].
        Subscribe = "journal.subscribe",
    }
}

names! {
    /// What the arbiter tells without being asked again.
    Notice {
        /// [`crate::operation::Chunk`].
        Chunk = "op.chunk",
        /// [`crate::operation::Gap`].
        Gap = "op.gap",
        /// [`crate::operation::Ended`].
        Result = "op.result",
        /// [`crate::journal::EventNotice`].
        Event = "journal.event",
    }
}
