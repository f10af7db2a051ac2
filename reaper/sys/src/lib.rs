//! Typed system calls for the helper: the only unsafe it has.
