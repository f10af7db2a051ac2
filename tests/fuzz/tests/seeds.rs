//! Real messages pass, and so does each of them after any one byte was changed, left out or put in.

use xioflow_fuzz::{Target, seeds};

#[test]
fn every_target_has_seeds_and_they_pass() {
    for target in Target::ALL {
        let seeds = seeds::seeds(target);
        assert!(seeds.len() >= 7, "{}", target.name());
        assert!(
            seeds.iter().all(|seed| seed.len() < 8 * 1024),
            "{} is small",
            target.name()
        );
        seeds.iter().for_each(|seed| target.check(seed));
    }
}

/// What fuzzing does with chance, for one byte with none.
#[test]
fn no_single_byte_breaks_what_holds() {
    for target in Target::ALL {
        for seed in seeds::seeds(target).iter().filter(|seed| seed.len() < 400) {
            for at in 0..seed.len() {
                for byte in [
                    0,
                    1,
                    b'"',
                    b'}',
                    0x7f,
                    0x80,
                    0xff,
                    seed[at] ^ 1,
                    seed[at] ^ 0x20,
                ] {
                    let mut changed = seed.clone();
                    changed[at] = byte;
                    target.check(&changed);
                }
                target.check(&[&seed[..at], &seed[at + 1..]].concat());
                target.check(&[&seed[..at], b"[", &seed[at..]].concat());
            }
        }
    }
}
