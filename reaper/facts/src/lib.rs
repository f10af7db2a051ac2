//! What the system says of a process: identity, descendants, who holds a pipe.
