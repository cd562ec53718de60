//! What the README shows is what the repository holds.

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
