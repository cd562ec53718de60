//! The promises of `steps`: every arrangement has its figures; mistakes are explained.

use std::process::{Command, Output};

fn steps(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steps")).args(arguments).output().expect("it can be run")
}

#[test]
fn every_arrangement_has_its_longest_step() {
    let output = steps(&["--timers", "2000", "--repeats", "2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("(step ")).collect();
    assert_eq!(rows.len(), 9, "{text}");
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 8, "{row}");
        for cell in &cells[1..] {
            let number = cell.split(' ').next().and_then(|number| number.parse::<f64>().ok());
            assert!(number.is_some_and(|number| number >= 0.0), "{cell} in {row}");
        }
        // A driver is given a bounded number of timers at a time.
        let late: usize = cells[7].rsplit([' ', ')']).nth(1).unwrap().parse().unwrap();
        assert!(late >= 2000 * 9 / 10 / 256, "{row}");
    }
}

#[test]
fn one_arrangement_can_be_chosen_and_mistakes_are_explained() {
    let output = steps(&["--timers", "100", "--repeats", "1", "--only", "cancelled"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.matches("(step ").count() == 2, "{text}");
    for (arguments, wanted) in [
        (
            &["--only", "random over a year"][..],
            "no arrangement with 'random over a year'; there are: one deadline",
        ),
        (&["--timers", "0"], "0 is not in 1"),
        (&["--child", "one deadline"], "own use"),
    ] {
        let output = steps(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(wanted), "{arguments:?}: {message}");
    }
}
