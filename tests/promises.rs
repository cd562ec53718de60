//! docs/tests.md names tests, and among them those that hold the promises of SECURITY.md, docs/systems.md the tests that
//! show what other systems do here, docs/channels.md, docs/files.md and docs/hosting.md the tests that run, docs/unsafe.md
//! counts the unsafe code, and ci/mutants-equivalent.txt quotes the source: all of these are true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The cells of each row of the tables below a heading.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect("the heading is there");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    // The first two lines are the heads and the rule below them.
    section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

/// The text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether `source` has a test with this name, not just a function.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    lines.iter().enumerate().any(|(number, line)| {
        let attributes =
            lines[..number].iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
        // A property is a test inside `proptest!`, which gives it the attribute, too.
        line.starts_with(&function) && attributes.into_iter().any(|line| line.starts_with("#[test]"))
    })
}

#[test]
fn every_file_that_the_checklist_names_exists() {
    let page = read("docs/tests.md");
    let words = page.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
    let paths = words.map(|word| word.trim_end_matches('.')).filter(|word| {
        let top = word.split_once('/').map(|(top, _)| top);
        top.is_some_and(|top| {
            ["benches", "ci", "driver", "ecosystem", "examples", "src", "tests"].contains(&top)
        })
    });
    let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "there are no such files: {missing:?}");
}

#[test]
fn every_test_that_the_checklist_names_exists() {
    let mut files = Vec::new();
    for below in ["benches", "driver", "ecosystem", "examples", "src", "tests"] {
        sources(root().join(below), &mut files);
    }
    let sources: String =
        files.iter().map(|path| fs::read_to_string(path).expect("it can be read")).collect();
    let functions: BTreeSet<&str> =
        sources.split("fn ").skip(1).filter_map(|rest| rest.split_once('(')).map(|(name, _)| name).collect();
    let page = read("docs/tests.md");
    // Shorter names are those of functions and features.
    let named: Vec<&str> =
        quoted(&page).filter(|name| is_name(name) && name.matches('_').count() >= 3).collect();
    assert!(named.len() >= 500, "only {} tests are named", named.len());
    let missing: Vec<&str> = named.into_iter().filter(|name| !functions.contains(name)).collect();
    assert!(missing.is_empty(), "there are no such tests: {missing:?}");
}

#[test]
fn every_promise_names_tests_that_exist() {
    let promised = rows(&read("SECURITY.md"), "What is promised");
    let rows = rows(&read("docs/tests.md"), "The promises of SECURITY.md");
    assert!(rows.len() >= 8, "only {} promises", rows.len());
    let names = |rows: &[Vec<String>]| rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>();
    assert_eq!(names(&promised), names(&rows), "another promise is made than held");
    for row in rows {
        let [promise, tests] = &row[..] else { panic!("a row of {} cells: {row:?}", row.len()) };
        assert!(quoted(tests).count() >= 2, "who holds this promise? {promise}");
        for test in quoted(tests) {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("no `file::name`: {test}"));
            assert!(has_test(&read(file), name), "{file} has no test {name}");
        }
    }
}

#[test]
fn every_row_of_the_systems_names_tests_that_exist() {
    let page = read("docs/systems.md");
    let mut named = 0;
    for system in ["Skynet", "libco", "go-zero", "Netty", "Tokio"] {
        let rows = rows(&page, system);
        assert!(rows.len() >= 5, "only {} rows of {system}", rows.len());
        for row in rows {
            let [what, _, tests] = &row[..] else { panic!("a row of {} cells: {row:?}", row.len()) };
            assert!(quoted(tests).count() >= 1, "who shows this? {system}: {what}");
            for test in quoted(tests) {
                let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("no `file::name`: {test}"));
                assert!(has_test(&read(file), name), "{system}, {what}: {file} has no test {name}");
                named += 1;
            }
        }
    }
    assert!(named >= 70, "only {named} tests are named");
}

#[test]
fn every_row_of_the_channels_names_a_test_that_exists() {
    let page = read("docs/channels.md");
    let sources = ["channels", "tokio_sync"].map(|name| read(&format!("ecosystem/tests/{name}.rs")));
    for heading in ["Channels", "Locks", "Within a task"] {
        let rows = rows(&page, heading);
        assert!(rows.len() >= 3, "only {} rows of {heading}", rows.len());
        for row in rows {
            let [what, _, tests] = &row[..] else { panic!("a row of {} cells: {row:?}", row.len()) };
            assert!(quoted(tests).count() >= 1, "who shows this? {what}");
            for test in quoted(tests) {
                assert!(
                    sources.iter().any(|source| has_test(source, test)),
                    "{what}: there is no test {test}"
                );
            }
        }
    }
}

#[test]
fn the_pages_on_files_and_on_other_loops_name_tests_that_exist() {
    for (page, least) in [("docs/files.md", 2), ("docs/hosting.md", 1)] {
        let text = read(page);
        let named: Vec<_> = quoted(&text).filter_map(|name| name.split_once(".rs::")).collect();
        assert!(named.len() >= least, "{page} names only {named:?}");
        for (file, name) in named {
            assert!(has_test(&read(&format!("{file}.rs")), name), "{page}: {file}.rs has no test {name}");
        }
    }
}

#[test]
fn every_mutant_that_may_be_missed_quotes_a_line_of_the_source() {
    let list = read("ci/mutants-equivalent.txt");
    let mutants: Vec<_> = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(mutants.len() >= 30, "only {} mutants", mutants.len());
    for mutant in mutants {
        let (file, rest) = mutant.split_once(": ").unwrap_or_else(|| panic!("{mutant:?} names no file"));
        let source = read(file);
        // The mutant may contain a bar, and so may the line.
        let mut quotes = rest.match_indices(" | ").map(|(at, bar)| &rest[at + bar.len()..]);
        assert!(
            quotes.any(|quote| source.lines().any(|line| line.trim() == quote)),
            "no longer there: {mutant}"
        );
    }
}

/// The numbers of blocks (including those of foreign functions), functions and implementations.
type Sites = [usize; 3];

/// The unsafe code of a file. No string in this repository's sources has a `//` or the word in it.
fn count(source: &str) -> Sites {
    let code: String = source.lines().flat_map(|line| [line.split("//").next().unwrap_or(""), " "]).collect();
    let words: Vec<&str> =
        code.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_')).flat_map(words_of).collect();
    let mut sites = Sites::default();
    for (number, _) in words.iter().enumerate().filter(|(_, word)| **word == "unsafe") {
        match words.get(number + 1) {
            Some(&"{" | &"extern") => sites[0] += 1,
            Some(&"fn") => sites[1] += 1,
            Some(&"impl") => sites[2] += 1,
            other => panic!("`unsafe` before {other:?}"),
        }
    }
    sites
}

/// A word and the characters that follow it, each on its own, without blanks.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    [word, rest.trim()].into_iter().filter(|part| !part.is_empty())
}

fn sources(below: PathBuf, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("the directory is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources(path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_unsafe_code_is_what_its_page_says() {
    let told: BTreeMap<String, Sites> = rows(&read("docs/unsafe.md"), "The table")
        .iter()
        .map(|row| {
            let file = quoted(&row[0]).next().expect("a file").to_owned();
            (file, [1, 2, 3].map(|column| row[column].parse().expect("a number")))
        })
        .collect();
    let mut files = Vec::new();
    sources(root().join("src"), &mut files);
    sources(root().join("driver/src"), &mut files);
    let found: BTreeMap<String, Sites> = files
        .iter()
        .map(|path| {
            let source = fs::read_to_string(path).expect("it can be read");
            let name = path.strip_prefix(root()).expect("it lies below the root");
            (name.to_string_lossy().replace('\\', "/"), count(&source))
        })
        .filter(|(_, sites)| *sites != Sites::default())
        .collect();
    assert_eq!(told, found, "the table in docs/unsafe.md (left) is not what is there (right)");
}

#[test]
fn what_counts_can_count() {
    let source =
        "unsafe impl X for Y {} // unsafe {\nunsafe fn f() { unsafe\n{ g() } } let unsafely = not_unsafe;";
    assert_eq!(count(source), [1, 1, 1]);
    assert!(has_test("#[test]\n// why\nfn there() {", "there"));
    assert!(!has_test("fn there() {", "there") && !has_test("#[test]\nfn there_too() {", "there"));
}
