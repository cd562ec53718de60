//! Checks the agenda against a plain list that is searched from end to end: the same entries, in the same
//! order, each once, never early; an old key never refers to another entry; memory is given back.

use std::cell::Cell;
use std::rc::Rc;
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

#[test]
fn equal_deadlines_come_out_in_the_order_of_insertion() {
    let mut agenda = Agenda::new();
    let keys: Vec<Key> = (0..1_000).map(|n| agenda.insert(n, Nanos::new(1 << 40))).collect();
    // A reset keeps the entry's place in the order.
    for &key in keys.iter().step_by(3) {
        assert!(agenda.reset(key, Nanos::new(1 << 41)) && agenda.reset(key, Nanos::new(1 << 40)));
    }
    let mut popped = Vec::new();
    while let Some(entry) = agenda.pop_due(Nanos::new(1 << 40)) {
        popped.push(entry.value);
    }
    assert_eq!(popped, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn the_next_entry_is_announced_also_while_a_crowd_is_found_to_be_put_off() {
    // Out of order, in one slot; every other one was put off. Move by move, each entry that comes out was announced.
    for moves in [1, 3] {
        let mut agenda = Agenda::new();
        let keys: Vec<Key> = (0..40).map(|n| agenda.insert(n, Nanos::new(1_000 - 10 * n))).collect();
        for (n, &key) in keys.iter().enumerate().filter(|(n, _)| n % 2 == 0) {
            // To a time after the one up to which entries are popped, or before it.
            assert!(agenda.reset(key, Nanos::new(if n % 3 == 0 { 5_000_000 } else { 1_500 })));
        }
        let (mut out, mut cut) = (0, 0);
        loop {
            let next = agenda.peek();
            match agenda.pop_due_within(Nanos::new(2_000), &mut { moves }) {
                Popped::Entry(entry) => {
                    assert_eq!(next, Some(entry.key), "another one was announced");
                    out += 1;
                }
                Popped::Exhausted => {
                    assert_eq!(agenda.peek(), next, "a cut changed who is next");
                    cut += 1;
                }
                Popped::Idle => break,
            }
            agenda.check();
        }
        // Twenty entries were put off, and each cost a move; between two of them one entry comes out.
        assert_eq!((out, agenda.len(), cut), (33, 7, if moves == 1 { 20 } else { 0 }));
    }
}

#[test]
fn an_old_key_never_touches_a_new_entry() {
    let mut agenda = Agenda::new();
    let old = agenda.insert("old", Nanos::new(10));
    assert_eq!(agenda.remove(old).unwrap().value, "old");
    let new = agenda.insert("new", Nanos::new(20));
    assert_ne!(old, new);
    assert!(
        agenda.remove(old).is_none() && !agenda.reset(old, Nanos::new(1)) && agenda.get_mut(old).is_none()
    );
    agenda.clear();
    let newer = agenda.insert("newer", Nanos::new(30));
    assert!(agenda.get(new).is_none());
    assert_eq!(agenda.get(newer), Some(&"newer"));
}

#[test]
fn a_page_with_one_entry_stays_and_is_filled_first() {
    let mut agenda = Agenda::new();
    let keys: Vec<Key> = (0..6_400u64).map(|n| agenda.insert(n, Nanos::new(n << 20))).collect();
    for (n, &key) in keys.iter().enumerate().filter(|(n, _)| n % 64 != 0) {
        assert_eq!(agenda.remove(key).unwrap().value, n as u64);
    }
    agenda.shrink_to_fit();
    assert_eq!(agenda.capacity(), 6_400, "one entry a page");
    agenda.check();
    let fresh: Vec<Key> = (0..6_300).map(|n| agenda.insert(n, Nanos::ZERO)).collect();
    assert_eq!(agenda.capacity(), 6_400, "there was room for all of them");
    // The keys of entries that lie where others lay stay distinct.
    for (n, &key) in keys.iter().enumerate() {
        assert_eq!(agenda.remove(key).map(|entry| entry.value), (n % 64 == 0).then_some(n as u64));
    }
    assert_eq!(agenda.len(), fresh.len());
    agenda.check();
    agenda.clear();
    agenda.shrink_to_fit();
    assert_eq!(agenda.capacity(), 0);
}

#[test]
fn a_value_is_dropped_when_it_leaves_and_its_memory_is_given_back() {
    struct Counted(Rc<Cell<usize>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let mut agenda = Agenda::new();
    let keys: Vec<Key> =
        (0..50_000).map(|n| agenda.insert(Counted(dropped.clone()), Nanos::new(1 << 50 | n))).collect();
    let full = agenda.allocated_bytes();
    for (n, key) in keys.into_iter().enumerate() {
        drop(agenda.remove(key));
        assert_eq!(dropped.get(), n + 1);
    }
    for second in 1..2_000 {
        assert!(agenda.pop_due(Nanos::new(second << 31)).is_none());
    }
    assert!(agenda.allocated_bytes() < full / 20, "{} of {full} bytes are left", agenda.allocated_bytes());
    agenda.shrink_to_fit();
    assert!(agenda.allocated_bytes() == 0, "{} bytes are left", agenda.allocated_bytes());
}

#[test]
fn a_clock_that_goes_back_takes_nothing_back() {
    let mut agenda = Agenda::new();
    agenda.insert('a', Nanos::new(1_000_000_000));
    agenda.insert('b', Nanos::new(1_000_000_001));
    assert_eq!(agenda.pop_due(Nanos::new(1_000_000_000)).unwrap().value, 'a');
    // The time has reached a billion; so no entry waits for the clock to reach a billion again.
    agenda.insert('c', Nanos::new(900_000_000));
    assert_eq!(agenda.pop_due(Nanos::new(5)).unwrap().value, 'c');
    assert!(agenda.pop_due(Nanos::new(1_000_000_000)).is_none());
    assert_eq!(agenda.pop_due(Nanos::new(1_000_000_001)).unwrap().value, 'b');
}

#[test]
fn a_clock_that_goes_back_in_the_middle_of_a_drain_loses_nothing_and_fires_nothing_early() {
    // In order, and out of order; a few entries are due at the time that the agenda is told, and one is not.
    for deadlines in [[100, 200, 300, 301], [300, 200, 301, 100]] {
        for left in 0..3 {
            let mut agenda = Agenda::new();
            for deadline in deadlines {
                agenda.insert(deadline, Nanos::new(deadline));
            }
            let mut out: Vec<_> = (left..3).filter_map(|_| agenda.pop_due(Nanos::new(300))).collect();
            // The time has reached three hundred, so the entries that are left come out, in order, and nothing more.
            for back in [5, 150, 0, 299] {
                out.extend(agenda.pop_due(Nanos::new(back)));
                agenda.check();
            }
            let out: Vec<_> = out.into_iter().map(|entry| entry.value).collect();
            assert_eq!((out, agenda.len()), (vec![100, 200, 300], 1));
            assert_eq!(agenda.pop_due(Nanos::new(301)).map(|entry| entry.value), Some(301));
        }
    }
    // An agenda does not forget the time when it is emptied, either.
    let mut agenda = Agenda::new();
    assert!(agenda.pop_due(Nanos::new(1_000)).is_none());
    for empty in [Agenda::clear, Agenda::shrink_to_fit] {
        agenda.insert('x', Nanos::new(900));
        assert!(agenda.pop_due(Nanos::ZERO).is_some(), "it has been a thousand");
        agenda.insert('y', Nanos::new(1_001));
        assert!(agenda.pop_due(Nanos::ZERO).is_none());
        agenda.clear();
        empty(&mut agenda);
    }
}

#[test]
fn entries_are_numbered_and_listed_and_their_values_can_be_changed() {
    let mut agenda = Agenda::new();
    let keys = [30, 10, 20].map(|at| agenda.insert(at, Nanos::new(at)));
    assert_eq!(keys.map(Key::number), [1, 2, 3]);
    *agenda.get_mut(keys[1]).unwrap() = 11;
    assert!(agenda.reset(keys[1], Nanos::new(12)));
    let mut listed: Vec<_> =
        agenda.iter().map(|(key, deadline, value)| (key, deadline.get(), *value)).collect();
    listed.sort_unstable();
    assert_eq!(listed, [(keys[0], 30, 30), (keys[1], 12, 11), (keys[2], 20, 20)]);
    assert_eq!(agenda.pop_due(Nanos::new(12)).map(|entry| entry.value), Some(11));
    assert_eq!(agenda.iter().count(), 2);
}

#[test]
fn what_is_reserved_is_there_until_it_is_given_back() {
    let mut reserved = Agenda::new();
    reserved.insert(0u64, Nanos::new(1));
    reserved.reserve(1_000);
    assert!((1_001..2_000).contains(&reserved.capacity()));
    for mut agenda in [Agenda::with_capacity(1_000), reserved] {
        let room = agenda.capacity();
        assert!(room >= 1_000);
        for n in 0..1_000 {
            agenda.insert(n, Nanos::new(n));
        }
        // The values and the wheel: a few dozen bytes an entry.
        let bytes = agenda.allocated_bytes();
        assert!((1_000 * size_of::<u64>()..200_000).contains(&bytes), "{bytes} bytes for a thousand entries");
        while agenda.pop_due(Nanos::new(1_000)).is_some() {}
        for second in 1..100 {
            assert!(agenda.pop_due(Nanos::new(second << 31)).is_none());
        }
        agenda.clear();
        assert_eq!(agenda.capacity(), room, "a part of what was reserved is gone");
        agenda.shrink_to_fit();
        assert_eq!(agenda.capacity(), 0);
    }
}

#[test]
fn each_entry_that_was_put_off_costs_one_move() {
    // The entries are put off after the first call found them due; filed in the order in which they are due, and in
    // the opposite order.
    for later in [0, 1] {
        let mut agenda = Agenda::new();
        let keys: Vec<Key> = (0..6).map(|n| agenda.insert(n, Nanos::new(15 - later * n))).collect();
        let first = agenda.pop_due(Nanos::new(15)).unwrap().key;
        for &key in keys.iter().filter(|key| **key != first) {
            assert!(agenda.reset(key, Nanos::new(1 << 40)));
        }
        for (granted, left) in [(2, 0), (2, 0), (7, 6)] {
            let mut moves = granted;
            let popped = agenda.pop_due_within(Nanos::new(15), &mut moves);
            assert_eq!((popped, moves), (if left == 0 { Popped::Exhausted } else { Popped::Idle }, left));
            agenda.check();
        }
    }
    // The entry is put off before. A reset to the deadline that it already has does not touch the wheel, so
    // the move must still be made.
    let mut agenda = Agenda::new();
    let key = agenda.insert(0, Nanos::new(10));
    assert!(agenda.reset(key, Nanos::new(1 << 40)) && agenda.reset(key, Nanos::new(1 << 40)));
    let mut moves = 7;
    assert_eq!((agenda.pop_due_within(Nanos::new(1 << 20), &mut moves), moves), (Popped::Idle, 6));
}

#[test]
fn a_peek_finds_the_first_of_equal_deadlines_wherever_it_waits() {
    // Each time the entry that came first is moved to the deadline of others, or another entry is put off to
    // the first one's deadline.
    let at = Nanos::new;
    // In a slot that begins at that deadline.
    let mut agenda = Agenda::new();
    let first = agenda.insert((), at(1 << 10));
    let second = agenda.insert((), at(500));
    assert!(agenda.reset(second, at(1 << 10)));
    assert_eq!(agenda.peek(), Some(first));
    // In a slot that has been opened, behind an entry that was put off.
    let mut agenda = Agenda::new();
    let first = agenda.insert((), at((1 << 10) + 20));
    let second = agenda.insert((), at((1 << 10) + 10));
    assert!(agenda.pop_due(at((1 << 10) + 5)).is_none());
    assert!(agenda.reset(second, at((1 << 10) + 20)));
    assert_eq!(agenda.peek(), Some(first));
    // Before a crowd in order that leaves the entry no room; and then an earlier entry comes.
    let mut agenda = Agenda::new();
    let first = agenda.insert((), at(1 << 10));
    for _ in 0..40 {
        agenda.insert((), at(15));
    }
    assert!(agenda.reset(first, at(15)));
    assert_eq!(agenda.peek(), Some(first));
    let earlier = agenda.insert((), at(3));
    assert_eq!(agenda.peek(), Some(earlier));
    assert_eq!(agenda.pop_due(at(15)).map(|entry| entry.key), Some(earlier));
    assert_eq!(agenda.pop_due(at(15)).map(|entry| entry.key), Some(first));
}

#[test]
fn what_was_taken_out_is_not_seen_any_more_and_nobody_wakes_for_it() {
    let at = Nanos::new;
    let mut agenda = Agenda::new();
    let keys: Vec<Key> = (0..10).map(|n| agenda.insert(n, at(100 + n))).collect();
    let never = [agenda.insert(10, Nanos::NEVER), agenda.insert(11, Nanos::NEVER)];
    let later = agenda.insert(12, at(5_000));
    for key in keys {
        agenda.remove(key).unwrap();
    }
    assert_eq!(agenda.peek(), Some(later));
    assert_eq!((agenda.earliest(), agenda.next_wake()), (Some(at(5_000)), Some(at(5_000))));
    // Entries that are never due have an order, too.
    agenda.remove(later).unwrap();
    agenda.remove(never[0]).unwrap();
    assert_eq!(agenda.peek(), Some(never[1]));
    agenda.remove(never[1]).unwrap();
    assert_eq!((agenda.peek(), agenda.earliest(), agenda.next_park()), (None, None, None));
    // The memory is freed, and a new wheel knows nothing of these entries.
    let key = agenda.insert(13, at(7));
    agenda.remove(key).unwrap();
    agenda.shrink_to_fit();
    agenda.check();
    assert_eq!(agenda.allocated_bytes(), 0);
    let key = agenda.insert(14, at(7));
    assert_eq!(agenda.next_deadline(), Some(at(7)));
    assert_eq!(agenda.pop_due(at(7)).map(|entry| entry.key), Some(key));
}

#[test]
fn nothing_is_allocated_before_the_first_entry() {
    let mut agenda = Agenda::<u64>::new();
    assert!(agenda.pop_due(Nanos::new(1 << 40)).is_none() && agenda.peek().is_none());
    assert_eq!((agenda.next_wake(), agenda.next_deadline(), agenda.allocated_bytes()), (None, None, 0));
}

/// Entries that come due 20 µs apart, in the order in which they were put in: returns the number of looks until all have come
/// out.
fn looks(agenda: &mut Agenda<u64>, first: u64, count: u64) -> u64 {
    agenda.note(Nanos::new(first));
    for n in 0..count {
        agenda.insert(n, Nanos::new(first + 2_000_000 + 20_000 * n));
    }
    let mut looks = 0;
    while let Some(wake) = agenda.next_wake() {
        looks += 1;
        while agenda.pop_due(wake).is_some() {}
    }
    looks
}

#[test]
fn a_tolerance_gathers_and_load_widens_the_default_one() {
    assert_eq!(looks(&mut Agenda::new(), 0, 500), 500);
    let mut fixed = Agenda::new();
    fixed.set_tolerance(Tolerance::Fixed { ratio: 1.0, max: Duration::from_micros(200) });
    // Slack is rounded down, to 196 µs.
    assert_eq!(looks(&mut fixed, 0, 500), 50);
    let mut adaptive = Agenda::new();
    adaptive.set_tolerance(Tolerance::Adaptive);
    // A 128th of 2 ms is less than 20 µs, and that of 12 ms is more. From the first window on, load allows an eighth.
    let quiet = looks(&mut adaptive, 0, 500);
    let busy = looks(&mut adaptive, 12_000_000, 500);
    assert!((150..500).contains(&quiet) && busy < 60, "{quiet} and {busy} looks");
    // After a quiet stretch the load is gone.
    assert!(looks(&mut adaptive, 1_000_000_000, 500) > 150);
    // The tolerance and the load also hold for entries that are put in after all others were taken out.
    fixed.clear();
    assert_eq!(looks(&mut fixed, 1_000_000_000, 500), 50);
}

#[test]
fn a_slack_that_was_set_is_as_wide_for_a_near_entry_until_a_tolerance_is_set() {
    let mut agenda = Agenda::new();
    agenda.set_slack(Duration::from_millis(5));
    let pair = |agenda: &mut Agenda<u64>, at: u64| {
        for at in [at, at + 4_000_000] {
            agenda.insert(at, Nanos::new(at));
        }
        let wake = agenda.next_wake().expect("there are entries").get();
        wake - at
    };
    assert_eq!(pair(&mut agenda, 1_000), 4_000_000);
    // It goes on after everything was taken out.
    drop(agenda.take_all());
    assert_eq!(pair(&mut agenda, 1_000), 4_000_000);
    agenda.clear();
    agenda.set_tolerance(Tolerance::Fixed { ratio: 1.0, max: Duration::from_millis(5) });
    assert_eq!(pair(&mut agenda, 1_000), 0);
}

#[test]
fn the_end_of_time_does_not_come() {
    let mut agenda = Agenda::new();
    let never = agenda.insert('n', Nanos::NEVER);
    assert!(agenda.pop_due(Nanos::new(Nanos::NEVER.get() - 1)).is_none());
    assert!(agenda.reset(never, Nanos::new(7)));
    assert_eq!(agenda.pop_due(Nanos::new(7)).unwrap().value, 'n');
}

#[test]
fn while_an_entry_is_due_there_is_no_time_to_sleep_whatever_its_slack() {
    let mut agenda = Agenda::new();
    agenda.set_slack(Duration::from_nanos(1024));
    for deadline in [100, 200, 1100] {
        agenda.insert(deadline, Nanos::new(deadline));
    }
    // One of two that are due is taken.
    assert_eq!(agenda.pop_due(Nanos::new(250)).unwrap().value, 100);
    assert_eq!(agenda.next_park(), Some((Nanos::new(200), Duration::ZERO)));
    assert_eq!(agenda.pop_due(Nanos::new(250)).unwrap().value, 200);
    assert_eq!(agenda.next_wake(), Some(Nanos::new(1100)));
}

#[test]
fn a_sleep_does_not_outlast_what_is_left_of_a_crowd_that_is_being_dealt() {
    // All lie in one slot, the latest first, and are dealt in this order from shortly before its start on.
    let start = 5 << 34;
    let mut agenda = Agenda::new();
    agenda.set_slack(Duration::from_nanos(1024));
    for n in (0..5_000).rev() {
        agenda.insert((), Nanos::new(start + n * 3_000_000));
    }
    let (mut now, mut looks) = (Nanos::new(start - 100_000_000), 0);
    while agenda.pop_due(now).is_none() {
        let (wake, slack) = agenda.next_park().unwrap();
        assert!(wake.saturating_add(slack).get() <= start + 1024, "would sleep from {now:?} until {wake:?}");
        // As many looks as deal some of the crowd, and then all of it.
        looks += 1;
        now = if looks < 30 { now.saturating_add_nanos(1_000_000) } else { wake };
    }
    assert!(now.get() <= start + 1024 && looks >= 30);
}
