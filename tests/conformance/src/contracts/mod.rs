//! The contracts, by what they are about. Each is written once, against [`crate::Client`].

mod clients;
mod facts;
mod leases;
mod output;
mod recovery;
mod replay;
mod runs;
mod start;
mod stop;

use crate::contract::Contract;

/// All contracts, by number.
#[must_use]
pub fn all() -> Vec<Contract> {
    let groups = [
        start::CONTRACTS,
        output::CONTRACTS,
        leases::CONTRACTS,
        stop::CONTRACTS,
        replay::CONTRACTS,
        runs::CONTRACTS,
        facts::CONTRACTS,
        recovery::CONTRACTS,
        clients::CONTRACTS,
    ];
    let mut all = groups.concat();
    all.sort_by_key(|contract| contract.number);
    all
}
