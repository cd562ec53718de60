//! What the README shows matches what the repository holds.

/// The README's first Rust block.
fn rust_block() -> &'static str {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```rust\n").expect("the README shows a program");
    rest.split_once("```").expect("the block ends").0
}

#[test]
fn the_program_in_the_readme_is_the_hello_example() {
    let example = include_str!("../examples/hello.rs");
    assert_eq!(rust_block(), example);
    assert!(example.lines().count() <= 20, "a first program is short");
}

#[test]
fn the_two_commands_are_there() {
    let readme = include_str!("../README.md");
    for command in ["cargo run --release --example keepalive", "cargo test --all-features"] {
        assert!(
            readme.lines().any(|line| line.trim_end() == command || line.starts_with(&format!("{command} "))),
            "{command}"
        );
    }
}

/// The cells, after the first, of the tables' rows whose first cell is `label`.
fn row<'a>(page: &'a str, label: &str) -> Vec<&'a str> {
    let mut rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let row = rows.find(|row| row.split(" | ").next() == Some(label));
    row.unwrap_or_else(|| panic!("no row {label}")).split(" | ").skip(1).collect()
}

/// The first number of a cell, converted from the unit in the cell or in `label` to nanoseconds or bytes.
fn value(cell: &str, label: &str) -> f64 {
    let digits: String = cell.chars().take_while(|c| c.is_ascii_digit() || *c == '.' || *c == ',').collect();
    let number: f64 = digits.replace(',', "").parse().unwrap_or_else(|_| panic!("no number in {cell}"));
    let units = [("µs", 1e3), ("ms", 1e6), ("ns", 1.0), ("bytes", 1.0)];
    let unit = |text: &str| units.into_iter().find(|(unit, _)| text.ends_with(unit)).map(|(_, scale)| scale);
    number * unit(cell).or(unit(label)).unwrap_or_else(|| panic!("no unit in {cell} nor {label}"))
}

#[test]
fn the_figures_are_those_of_the_benchmarks() {
    let readme = include_str!("../README.md");
    let benchmarks = include_str!("../BENCHMARKS.md");
    // The positions of the README's columns in the tables of a full run.
    let columns = [0, 1, 2, 6];
    let (_, busy) = benchmarks.split_once("**W10c**").expect("a table of W10c");
    let pairs = [
        ("Lateness of a 1 ms sleep, p50, idle", benchmarks, "1000 µs, p50, µs"),
        ("The same beside 1,000 tasks of 50 µs, p99", busy, "1000 µs, p99, µs"),
        ("CPU of a million timers over a second, each", benchmarks, "until all fired, ns"),
        ("A million timers with one deadline: the first is late", benchmarks, "the first is late by, µs"),
        ("Spawn, finish, join", benchmarks, "spawn, finish, join, ns"),
        ("Memory of a task that sleeps", benchmarks, "resident, task and sleep, bytes"),
    ];
    for (told, page, measured) in pairs {
        let (told_cells, cells) = (row(readme, told), row(page, measured));
        assert_eq!(told_cells.len(), columns.len(), "{told}");
        for (cell, column) in told_cells.into_iter().zip(columns) {
            let (here, there) = (value(cell, cell), value(cells[column], measured));
            assert!((here / there - 1.0).abs() < 0.01, "{told}: {cell} is not {}", cells[column]);
        }
    }
    let (crates, seconds) = (row(benchmarks, "crates"), row(benchmarks, "in release, s"));
    let builds = [0, 2, 4, 5].map(|column| format!("{} crates, {} s", crates[column], seconds[column]));
    assert_eq!(row(readme, "The default build, in release"), builds);
    // In the sentences.
    let (cpu, last) = (row(benchmarks, "until all fired, ns"), row(benchmarks, "the last is late by, µs"));
    for (figure, source) in
        [(format!("({})", cpu[8]), "W4"), (format!("{} µs", first(last[0])), "W4, the last")]
    {
        assert!(readme.contains(&figure), "{source}: the README lacks {figure}");
    }
}

fn first(cell: &str) -> &str {
    cell.split(' ').next().expect("a figure")
}
