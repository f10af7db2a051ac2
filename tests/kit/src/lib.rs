//! What every test stands on: its own domain, a deadline, a check that nothing is left.
