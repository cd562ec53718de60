//! Checks the agenda against a plain list that is searched from end to end: the same entries, in the same order, each once,
//! never early; an old key never refers to another entry; memory is given back.

use std::time::Duration;

use mainspring_driver::agenda::{Agenda, Key, Popped};
use mainspring_driver::{Nanos, Tolerance};
use proptest::prelude::*;

/// One step of a case. Numbers choose among the entries that exist.
#[derive(Clone, Debug)]
enum Op {
    Insert {
        delta: i64,
    },
    /// Removes this many entries in a row.
    Remove {
        which: usize,
        count: usize,
    },
    Reset {
        which: usize,
        delta: i64,
    },
    /// Advances time by `by`, then takes at most `most` entries, by a clock that shows `back` less.
    Pop {
        by: u64,
        back: u64,
        most: usize,
        moves: usize,
    },
    Shrink,
    Clear,
}

/// Times around the edges of the wheel's slots, from both sides, and both ends of time.
fn delta() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => (0u32..8, -300i64..300).prop_map(|(level, near)| (1i64 << (16 + 6 * level).min(62)).saturating_add(near)),
        4 => -300_000i64..300_000,
        2 => 0i64..3,
        1 => Just(i64::MAX),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        16 => delta().prop_map(|delta| Op::Insert { delta }),
        3 => (any::<usize>(), 1usize..20).prop_map(|(which, count)| Op::Remove { which, count }),
        5 => (any::<usize>(), delta()).prop_map(|(which, delta)| Op::Reset { which, delta }),
        6 => (delta(), delta(), 0usize..6, 1usize..40).prop_map(|(by, back, most, moves)| Op::Pop {
            by: by.unsigned_abs(),
            back: if most % 2 == 0 { 0 } else { back.unsigned_abs() },
            most,
            moves,
        }),
        1 => Just(Op::Shrink),
        1 => Just(Op::Clear),
    ]
}

struct Item {
    key: Key,
    deadline: Nanos,
    /// If the entry was put into the past: the time up to which everything had already come due when that happened.
    late: Option<Nanos>,
    /// The maximum number of nanoseconds by which a park may outlast the entry's deadline.
    slack: u64,
}

#[derive(Default)]
struct Model {
    now: u64,
    /// The agenda's tolerance: a share of the time, and the maximum.
    tolerance: (f64, Duration),
    items: Vec<Item>,
    gone: Vec<Key>,
}

impl Model {
    fn at(&self, delta: i64) -> Nanos {
        if delta == i64::MAX { Nanos::NEVER } else { Nanos::new(self.now.saturating_add_signed(delta)) }
    }

    fn late(&self, deadline: Nanos) -> Option<Nanos> {
        (deadline.get() <= self.now).then_some(Nanos::new(self.now))
    }

    fn slack(&self, deadline: Nanos) -> u64 {
        let (ratio, most) = self.tolerance;
        ((deadline.get().saturating_sub(self.now) as f64 * ratio) as u64).min(most.as_nanos() as u64)
    }

    fn pick(&self, which: usize) -> Option<usize> {
        (!self.items.is_empty()).then(|| which % self.items.len())
    }

    /// The entry of `key` has come out, at the current time.
    fn popped(&mut self, key: Key, deadline: Nanos) {
        let index = self.items.iter().position(|item| item.key == key).expect("it was there");
        let item = self.items.swap_remove(index);
        assert_eq!(item.deadline, deadline);
        assert!(deadline.get() <= self.now, "{deadline:?} is early at {}", self.now);
        for other in &self.items {
            let in_order = (deadline, key.number()) <= (other.deadline, other.key.number());
            let was_due = other.late.is_some_and(|late| deadline <= late) || item.late.is_some() && in_order;
            assert!(in_order || was_due, "{deadline:?} came before {:?}", other.deadline);
        }
        self.gone.push(key);
    }
}

fn play(ops: Vec<Op>, tolerance: Option<(f64, Duration)>, asked: usize) {
    let mut agenda = Agenda::new();
    if let Some((ratio, max)) = tolerance {
        agenda.set_tolerance(Tolerance::Fixed { ratio, max });
    }
    let mut model = Model { tolerance: tolerance.unwrap_or_default(), ..Model::default() };
    for (step, op) in ops.into_iter().enumerate() {
        match op {
            Op::Insert { delta } => {
                let deadline = model.at(delta);
                let key = agenda.insert((), deadline);
                assert!(
                    model.items.iter().map(|item| &item.key).chain(&model.gone).all(|other| *other < key)
                );
                let (late, slack) = (model.late(deadline), model.slack(deadline));
                model.items.push(Item { key, deadline, late, slack });
            }
            Op::Remove { which, count } => {
                for _ in 0..count {
                    let Some(index) = model.pick(which) else { break };
                    let item = model.items.swap_remove(index);
                    assert_eq!(agenda.remove(item.key).map(|entry| entry.deadline), Some(item.deadline));
                    model.gone.push(item.key);
                    agenda.check();
                }
            }
            Op::Reset { which, delta } => {
                if let Some(index) = model.pick(which) {
                    let deadline = model.at(delta);
                    let late = model.late(deadline).or(model.late(model.items[index].deadline));
                    let slack = model.slack(deadline);
                    let item = &mut model.items[index];
                    assert!(agenda.reset(item.key, deadline));
                    if deadline < item.deadline {
                        item.slack = slack;
                    }
                    (item.deadline, item.late) = (deadline, late.filter(|late| deadline <= *late));
                }
            }
            Op::Pop { by, back, most, mut moves } => {
                let shown = model.now.saturating_add(by).min(Nanos::NEVER.get() - 1).saturating_sub(back);
                // The agenda does not know a time that it was not told; a time that it was told stays valid.
                let told = if most > 0 { shown } else { 0 };
                model.now = model.now.max(told);
                let (shown, now) = (Nanos::new(shown), Nanos::new(model.now));
                for n in 0.. {
                    if n == most {
                        break;
                    }
                    let next = agenda.peek();
                    match agenda.pop_due_within(shown, &mut moves) {
                        Popped::Entry(entry) => {
                            assert_eq!(next, Some(entry.key), "another one was announced");
                            model.popped(entry.key, entry.deadline);
                        }
                        Popped::Exhausted => break,
                        Popped::Idle => {
                            let left = model.items.iter().filter(|item| item.deadline <= now).count();
                            assert_eq!(left, 0, "entries that are due were forgotten at {now:?}");
                            break;
                        }
                    }
                }
            }
            Op::Shrink => agenda.shrink_to_fit(),
            Op::Clear => {
                agenda.clear();
                model.gone.extend(model.items.drain(..).map(|item| item.key));
            }
        }
        agenda.check();
        assert_eq!(agenda.len(), model.items.len());
        for item in &model.items {
            assert_eq!(agenda.deadline(item.key), Some(item.deadline));
        }
        for &key in &model.gone {
            assert!(
                agenda.deadline(key).is_none()
                    && agenda.remove(key).is_none()
                    && !agenda.reset(key, Nanos::ZERO)
            );
        }
        // Asking the agenda when it wants to wake changes it, too.
        if step % asked > 0 {
            continue;
        }
        let earliest = model.items.iter().map(|item| item.deadline).min();
        // An entry that was already due may be announced for any time that has passed.
        let latest = earliest.map(|earliest| earliest.max(Nanos::new(model.now)));
        assert!(agenda.earliest() <= latest && agenda.earliest() <= agenda.next_wake());
        assert_eq!(
            (agenda.earliest().is_some(), agenda.next_wake().is_some()),
            (latest.is_some(), latest.is_some())
        );
        let most = model.items.iter().map(|item| item.deadline.saturating_add_nanos(item.slack)).min();
        let most = most.map(|most| most.max(Nanos::new(model.now)));
        let park = agenda.next_park();
        assert!(park.map(|(wake, slack)| wake.saturating_add(slack)) <= most, "{park:?} outlasts {most:?}");
        assert_eq!(park.map(|(wake, _)| wake), agenda.next_wake());
        if agenda.len() % 3 == 0 {
            assert_eq!(agenda.next_deadline(), earliest);
            agenda.check();
        }
    }
    let mut rest = agenda.take_all();
    let mut last = Nanos::ZERO;
    model.now = Nanos::NEVER.get();
    while let Some(entry) = rest.pop_due(Nanos::NEVER) {
        model.popped(entry.key, entry.deadline);
        last = last.max(entry.deadline);
    }
    assert!(model.items.is_empty() && agenda.is_empty() && rest.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_agenda_does_what_a_list_does(
        ops in prop::collection::vec(op(), 1..120),
        tolerance in prop::option::of((0.0..1.0, (0..1u64 << 20).prop_map(Duration::from_nanos))),
        asked in prop_oneof![Just(1), Just(20)],
    ) {
        play(ops, tolerance, asked);
    }
}
