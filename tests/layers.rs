//! The map in ARCHITECTURE.md is true: a room of `src`, or of `driver/src`, imports only rooms below it.

use std::fs;
use std::path::{Path, PathBuf};

/// A package's rooms.
struct House {
    /// From the ground up. A room may import itself and rooms of lower levels, but no other room of its own level.
    levels: &'static [&'static [&'static str]],
    /// Names at the package's root that its rooms use, and the room that each name comes from.
    faces: &'static [(&'static str, &'static str)],
}

const RUNTIME: House = House {
    levels: &[
        &["fork", "sync", "panics"],
        &["trace"],
        &["clock", "coop"],
        &["executor", "reactor"],
        &["runtime"],
        &["blocking"],
        &["io", "task", "time"],
        &["dump", "net", "signal"],
        &["hyper", "process", "tower"],
    ],
    faces: &[],
};

const DRIVER: House = House {
    levels: &[
        &["nanos", "sync", "lateness", "prefetch"],
        &["slack", "time", "wake"],
        &["trace", "wheel"],
        &["agenda", "timer"],
    ],
    faces: &[
        ("Nanos", "nanos"),
        ("Lateness", "lateness"),
        ("Tolerance", "slack"),
        ("Clock", "time"),
        ("TestClock", "time"),
    ],
};

impl House {
    fn level(&self, room: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.contains(&room))
    }

    fn room<'a>(&self, name: &'a str) -> &'a str {
        self.faces.iter().find(|(face, _)| *face == name).map_or(name, |(_, room)| room)
    }
}

/// What is wrong with the imports of a file, which lies in the house's `src` at this path: one line for each.
fn upward(house: &House, path: &str, source: &str) -> Vec<String> {
    let room = path.split(['/', '.']).next().expect("a path has a beginning");
    let Some(own) = house.level(room) else { return vec![format!("{path}: `{room}` has no level")] };
    let mut wrong = Vec::new();
    for (number, code) in code(source) {
        let mut look = |imported: &str| {
            let imported = house.room(imported);
            let below = house.level(imported).is_some_and(|level| level < own);
            if imported != room && !below {
                wrong.push(format!("{path}:{number}: `{room}` imports `{imported}`"));
            }
        };
        imports(&code).for_each(&mut look);
        // Above its own room there is the crate.
        let depth = path.matches('/').count() + usize::from(!path.ends_with("/mod.rs"));
        if let Some(path) = used(&code).filter(|_| !code.starts_with(' ')) {
            let path = path.replace("super::", "^");
            let up = path.len() - path.trim_start_matches('^').len();
            if up >= depth && up > 0 {
                look(name(path.trim_start_matches('^')));
            }
        }
    }
    wrong
}

/// The lines of code, numbered, without comments and without code that is only for tests; a `use` is one line.
fn code(source: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut for_tests = false;
    for (number, line) in source.lines().enumerate() {
        let line = line.split("//").next().expect("a split has a beginning");
        for_tests |= line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        // Because of the formatting, an item that begins at the margin ends there.
        let ends = line.starts_with('}') || (line.ends_with(';') && !line.starts_with(' '));
        if !for_tests {
            match lines.last_mut() {
                Some((_, open)) if used(open).is_some() && !open.ends_with(';') => {
                    *open += line.trim();
                }
                _ => lines.push((number + 1, line.trim_end().to_owned())),
            }
        }
        for_tests &= !ends;
    }
    lines
}

/// Returns what a line uses, if it is a `use`.
fn used(code: &str) -> Option<&str> {
    let (before, path) = code.split_once("use ")?;
    ["", "pub", "pub(crate)", "pub(super)"].contains(&before.trim()).then_some(path)
}

/// Returns what follows each `crate::` of a line.
fn imports(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("crate::").flat_map(|(at, found)| {
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            None => vec![name(rest)],
            Some(group) => first_names(group),
        }
    })
}

/// The first name of each path in a group that has been opened: `a::b, c::{d, e}}`.
fn first_names(group: &str) -> Vec<&str> {
    let (mut names, mut depth, mut begins) = (Vec::new(), 0, true);
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && !char.is_whitespace() => {
                names.push(name(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

fn name(path: &str) -> &str {
    path.split(|char: char| !(char.is_alphanumeric() || char == '_')).next().unwrap_or_default()
}

fn files(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("the directory is there") {
        let path = entry.expect("it can be read").path();
        let for_tests = ["tests", "tests.rs", "models.rs"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !for_tests {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !for_tests {
            found.push(path);
        }
    }
}

/// Checks all files of a package, which has at least this many.
fn hold(house: &House, src: &str, at_least: usize) {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(src);
    let mut found = Vec::new();
    files(&src, &mut found);
    found.retain(|path| *path != src.join("lib.rs"));
    assert!(found.len() >= at_least, "only {} files were found", found.len());
    let wrong: Vec<String> = found
        .iter()
        .flat_map(|path| {
            let name = path.strip_prefix(&src).expect("it lies below").to_string_lossy().replace('\\', "/");
            upward(house, &name, &fs::read_to_string(path).expect("it can be read"))
        })
        .collect();
    assert!(wrong.is_empty(), "these import upward:\n{}", wrong.join("\n"));
}

#[test]
fn a_room_of_the_runtime_imports_only_what_stands_below_it() {
    hold(&RUNTIME, "src", 50);
}

#[test]
fn a_room_of_the_driver_imports_only_what_stands_below_it() {
    hold(&DRIVER, "driver/src", 20);
}

#[test]
fn an_import_upward_is_found_wherever_it_stands() {
    let finds = |path: &str, source: &str, line: usize| {
        let wrong = upward(&RUNTIME, path, source);
        assert!(wrong.len() == 1 && wrong[0].starts_with(&format!("{path}:{line}: ")), "{source}: {wrong:?}");
    };
    finds("reactor/poller.rs", "\nuse crate::executor::Id;", 2);
    finds("clock/mod.rs", "use crate::{\n    sync::lock,\n    runtime::{context, Handle},\n};", 1);
    finds("sync.rs", "fn f() {\n    crate::coop::yield_now();\n}", 2);
    finds("time/sleep.rs", "use crate::block_on;", 1);
    finds("coop.rs", "use super::task::Id;", 1);
    finds("clock/mod.rs", "use super::task::Id;", 1);
    finds("clock/instant.rs", "use super::super::task::Id;", 1);
    finds("trace.rs", "mod on {\n    use crate::executor::Spawned;\n}", 2);
    assert_eq!(upward(&RUNTIME, "unheard/of.rs", ""), ["unheard/of.rs: `unheard` has no level"]);
    let wrong = upward(&DRIVER, "lateness.rs", "use crate::{Clock, Nanos};");
    assert_eq!(
        wrong,
        ["lateness.rs:1: `lateness` imports `time`", "lateness.rs:1: `lateness` imports `nanos`"]
    );
    for (path, source) in [
        ("net/udp/mod.rs", "use crate::io::Interest;\nuse crate::{net::addr, runtime::{context, Handle}};"),
        ("clock/instant.rs", "// crate::task\nuse super::system;\nuse crate::sync::thread_local;"),
        ("clock/system.rs", "#[cfg(test)]\nmod tests {\n    use crate::block_on;\n}\nuse crate::sync::lock;"),
    ] {
        assert_eq!(upward(&RUNTIME, path, source), [""; 0]);
    }
}
