//! Nothing of its own: `tests/places.rs` says what doctor has to find in each place of a guest, `guest/` is what the guest
//! runs, `image/` is what it is made of, and `cargo xtask vm` starts it.
