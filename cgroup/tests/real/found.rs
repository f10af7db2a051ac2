//! A recorded leaf is found again, or what became of it is said.

use std::fs;

use xioflow_cgroup::{Found, GroupError, Leaf, LeafPlace};

use crate::support::Place;

#[test]
fn it_is_found_by_its_id() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let Ok(Found::Leaf(found)) = Leaf::open(leaf.place()) else {
        panic!("it is there");
    };
    assert_eq!(found.place(), leaf.place());
    found.remove().expect("it is empty");
    assert!(matches!(Leaf::open(leaf.place()), Ok(Found::Gone)));
}

#[test]
fn it_is_gone_with_its_domain_and_root() {
    let Some(place) = Place::new() else { return };
    let domain = place.domain();
    let leaf = place.leaf();
    leaf.remove().expect("it is empty");
    assert!(domain.remove().expect("it has no leaf").was_there);
    assert!(!domain.remove().expect("nothing is left to do").was_there);
    assert!(matches!(Leaf::open(leaf.place()), Ok(Found::Gone)));
    drop(place);
    assert!(matches!(Leaf::open(leaf.place()), Ok(Found::Gone)));
}

#[test]
fn another_group_of_its_name_is_a_stranger_and_left_alone() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    leaf.remove().expect("it is empty");
    fs::create_dir(&leaf.place().directory).expect("somebody makes one of the same name");
    assert!(matches!(Leaf::open(leaf.place()), Ok(Found::Stranger)));
    assert!(!leaf.remove().expect("ours is gone").was_there);
    assert!(leaf.place().directory.is_dir(), "the other is still there");
}

#[test]
fn in_another_namespace_a_path_proves_nothing() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    for namespace in [Some(1), None] {
        let elsewhere = LeafPlace {
            namespace,
            ..leaf.place().clone()
        };
        // The id is the same in every namespace.
        assert!(matches!(Leaf::open(&elsewhere), Ok(Found::Leaf(_))));
        let other = LeafPlace {
            id: 1,
            ..elsewhere.clone()
        };
        assert!(matches!(
            Leaf::open(&other),
            Ok(Found::CannotTell { errno: None, .. })
        ));
    }
    leaf.remove().expect("it is empty");
    let elsewhere = LeafPlace {
        namespace: Some(1),
        ..leaf.place().clone()
    };
    assert!(matches!(
        Leaf::open(&elsewhere),
        Ok(Found::CannotTell { errno: None, .. })
    ));
}

#[test]
fn no_other_group_is_opened_as_a_leaf() {
    let Some(place) = Place::new() else { return };
    let domain = place.domain();
    let record = LeafPlace {
        directory: domain.directory().to_owned(),
        id: 1,
        namespace: None,
    };
    assert!(matches!(
        Leaf::open(&record),
        Err(GroupError::NotOurs { .. })
    ));
}
