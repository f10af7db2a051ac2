//! Several supervisors in one root, and what is not ours beside it.

use std::fs;

use xioflow_cgroup::{GroupName, Limits, RemoveError};

use crate::support::{Inmate, Place};

#[test]
fn a_domain_that_is_only_looked_for_is_not_made() {
    let Some(place) = Place::new() else { return };
    let name = GroupName::from_digest(&[7; 8]);
    assert!(
        place
            .root
            .find_domain(name.clone())
            .expect("a look")
            .is_none()
    );
    assert!(!place.directory().join(name.as_str()).exists());
    let made = place.root.domain(name.clone()).expect("it is made");
    let found = place
        .root
        .find_domain(name)
        .expect("a look")
        .expect("it is there");
    assert_eq!(made.directory(), found.directory());
}

#[test]
fn only_leaves_are_listed_and_nothing_else_is_touched() {
    let Some(place) = Place::new() else { return };
    let domain = place.domain();
    let foreign = [
        "xioflow-host",
        "leaf",
        "0123456789ABCDEF0123456789ABCDEF",
        "0123",
    ];
    for name in foreign {
        fs::create_dir(domain.directory().join(name)).expect("somebody makes a group");
    }
    let leaf = place.leaf();
    let listed: Vec<_> = domain.leaves().expect("a list").collect();
    assert_eq!(listed, [leaf.place().clone()]);

    leaf.remove().expect("it is empty");
    let refused = domain.remove().expect_err("others are in it");
    assert!(
        matches!(refused, RemoveError::HasGroups { .. }),
        "{refused:?}"
    );
    for name in foreign {
        assert!(
            domain.directory().join(name).is_dir(),
            "{name} is still there"
        );
    }
}

#[test]
fn a_domain_with_a_process_of_somebody_is_not_removed() {
    let Some(place) = Place::new() else { return };
    let domain = place.domain();
    let mut inmate = Inmate::idle(domain.directory());
    let refused = domain.remove().expect_err("somebody is in it");
    assert!(
        matches!(refused, RemoveError::Populated { .. }),
        "{refused:?}"
    );
    assert!(inmate.is_alive());
}

#[test]
fn many_at_once_make_and_remove_without_disturbing_each_other() {
    let Some(place) = Place::new() else { return };
    let work = |number: u8| {
        let name = GroupName::from_digest(&[number / 2; 8]);
        for _ in 0..50 {
            let domain = place.root.domain(name.clone()).expect("a domain");
            let leaf = match domain.leaf(&Limits::default()) {
                Ok(leaf) => leaf,
                // The other one of this domain has just removed it.
                Err(error) if error.is_absence() => continue,
                Err(error) => panic!("{error:?}"),
            };
            assert!(leaf.remove().expect("it is empty").was_there);
            match domain.remove() {
                Ok(_) | Err(RemoveError::HasGroups { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || work(number));
        }
    });
    let left = fs::read_dir(place.directory()).expect("a list");
    let left = left.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir()));
    assert!(left.count() <= 2, "at most the last of each domain");
}
