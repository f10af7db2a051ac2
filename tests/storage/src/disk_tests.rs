//! What a power failure may leave and what it may not, by the rules of the model.

use super::*;

/// A disk with these changes, each at the moment of its place in the list.
fn disk(changes: &[(&str, Change)]) -> Disk {
    let mut disk = Disk::default();
    for (moment, (path, change)) in changes.iter().enumerate() {
        disk.apply(moment, Path::new(path), change).unwrap();
    }
    disk
}

fn write(at: usize, bytes: &[u8]) -> Change {
    let bytes = bytes.to_vec();
    Change::Write { at, bytes }
}

fn names(tree: &Tree) -> Vec<&str> {
    tree.keys().map(|name| name.to_str().unwrap()).collect()
}

fn file<'a>(tree: &'a Tree, name: &str) -> &'a [u8] {
    match &tree[&OsString::from(name)] {
        Found::File(content) => content,
        Found::Folder(_) => panic!("{name} is a folder"),
    }
}

const SYNC: Change = Change::Sync { before: usize::MAX };

#[test]
fn a_synced_file_keeps_its_content_and_not_its_name() {
    let disk = disk(&[("a", Change::MakeFile), ("a", write(0, b"xy")), ("a", SYNC)]);
    assert!(disk.after(Survival::Nothing).is_empty());
    assert_eq!(file(&disk.after(Survival::Names), "a"), b"xy");
}

#[test]
fn a_synced_folder_keeps_names_and_no_content() {
    let changes = [("a", Change::MakeFile), ("a", write(0, b"xy")), ("", SYNC)];
    let disk = disk(&changes);
    assert_eq!(file(&disk.after(Survival::Nothing), "a"), b"");
    assert_eq!(file(&disk.after(Survival::Content), "a"), b"xy");
}

/// A folder is an entry of the folder that it lies in, like everything else.
#[test]
fn what_is_synced_in_a_folder_goes_with_the_folder_itself() {
    let disk = disk(&[
        ("d", Change::MakeFolder),
        ("d/a", Change::MakeFile),
        ("d", SYNC),
    ]);
    assert!(disk.after(Survival::Nothing).is_empty());
    let Found::Folder(inside) = &disk.after(Survival::Names)[&OsString::from("d")] else {
        panic!("a folder");
    };
    assert_eq!(names(inside), ["a"]);
}

#[test]
fn what_comes_while_a_sync_is_under_way_is_not_synced() {
    let mut disk = disk(&[("a", Change::MakeFile), ("", SYNC), ("a", write(0, b"x"))]);
    let path = Path::new("a");
    disk.apply(5, path, &write(1, b"y")).unwrap();
    disk.apply(6, path, &Change::Sync { before: 4 }).unwrap();
    assert_eq!(file(&disk.after(Survival::Nothing), "a"), b"x");
    assert_eq!(file(&disk.after(Survival::Everything), "a"), b"xy");
}

#[test]
fn a_rename_takes_the_place_of_another_file() {
    let disk = disk(&[
        ("a", Change::MakeFile),
        ("a", write(0, b"old")),
        ("a", SYNC),
        ("", SYNC),
        ("b", Change::MakeFile),
        ("b", write(0, b"new")),
        ("b", SYNC),
        ("b", Change::Rename("a".into())),
    ]);
    assert_eq!(file(&disk.after(Survival::Nothing), "a"), b"old");
    let after = disk.after(Survival::Everything);
    assert_eq!((names(&after), file(&after, "a")), (vec!["a"], &b"new"[..]));
}

#[test]
fn an_unsynced_removal_may_be_undone() {
    let mut disk = disk(&[("a", Change::MakeFile), ("", SYNC), ("a", Change::Remove)]);
    assert_eq!(names(&disk.after(Survival::Nothing)), ["a"]);
    assert!(disk.after(Survival::Everything).is_empty());
    disk.apply(9, Path::new(""), &SYNC).unwrap();
    assert!(disk.after(Survival::Nothing).is_empty());
}

#[test]
fn a_torn_write_survives_in_whole_pieces() {
    let disk = disk(&[
        ("a", Change::MakeFile),
        ("", SYNC),
        ("a", write(3, &[b'x'; 13])),
    ]);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let content = file(&disk.after(Survival::Torn { piece: 8, seed }), "a").to_vec();
        let first = content.get(3..8).is_some_and(|piece| piece == [b'x'; 5]);
        let second = content.get(8..).is_some_and(|piece| piece == [b'x'; 8]);
        let mut expected = vec![
            0;
            if second {
                16
            } else if first {
                8
            } else {
                0
            }
        ];
        if first {
            expected[3..8].fill(b'x');
        }
        if second {
            expected[8..].fill(b'x');
        }
        assert_eq!(content, expected);
        seen.insert((first, second));
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn a_change_of_nothing_is_an_error() {
    let mut disk = disk(&[("a", Change::MakeFile)]);
    for (path, change) in [
        ("b", Change::Remove),
        ("a/b", Change::MakeFile),
        ("", write(0, b"x")),
        ("b", SYNC),
    ] {
        assert!(disk.apply(1, Path::new(path), &change).is_err(), "{path}");
    }
}
