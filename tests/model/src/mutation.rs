//! What could be wrong. Each is one deliberate fault, in a rule's answer or in how it is used; a test shows that the
//! properties notice it.

/// A deliberate fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// The first commit forgets the identities.
    NoIdentity,
    /// It forgets the lease.
    NoLease,
    /// The gate is opened before the first commit is durable.
    GateBeforeCommit,
    /// A submission of an id that is known runs it again.
    RunsAgain,
    /// Where a helper died without a word, recovery takes its tree for gone.
    TrustsSilence,
    /// Recovery takes a process of an earlier boot for one that succeeded.
    GuessesSuccess,
    /// Recovery takes what it did not see for an exit.
    GuessesExit,
    /// Recovery says of a tree that it has ended that nothing of it ever ran.
    DeniesRun,
    /// A result frees the lease, whatever it says.
    FreesAlways,
    /// The status of an operation is its last one without a result.
    NoResult,
    /// A result is recorded over another. The epoch keeps that away as well, so it is not compared either.
    SecondResult,
    /// The epoch is not compared.
    NoFence,
    /// A last word is believed, whoever has written it.
    AnyWord,
    /// A last word is believed, though it says that something is left.
    AnyEnd,
    /// The helper says that nothing is left, and something is.
    HelperLies,
    /// In memory, a lease is free once its operation has ended, whatever the record says.
    ForgetsLease,
    /// Recovery does not come back to what it had to wait for.
    ForgetsWait,
    /// Recovery leaves the Run of an operation as it is.
    ForgetsRun,
}
