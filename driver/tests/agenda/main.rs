//! The agenda: the order in which entries come out, keys that have outlived their entries, memory, the end of time.
//! `model.rs` compares it with a plain list.

mod model;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use mainspring_driver::agenda::{Agenda, Key, Popped};
use mainspring_driver::{Nanos, Tolerance};

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
fn a_key_of_another_agenda_finds_nothing_and_taken_entries_keep_their_keys() {
    let (mut agenda, mut other) = (Agenda::new(), Agenda::new());
    let (key, strange) = (agenda.insert('a', Nanos::new(1)), other.insert('b', Nanos::new(1)));
    assert_eq!((key.number(), key == strange), (strange.number(), false));
    assert!(agenda.remove(strange).is_none() && !agenda.reset(strange, Nanos::new(2)));
    assert!(
        agenda.get(strange).is_none()
            && agenda.get_mut(strange).is_none()
            && agenda.deadline(strange).is_none()
    );
    assert_eq!((agenda.peek(), agenda.iter().next().map(|(key, ..)| key)), (Some(key), Some(key)));
    let mut taken = agenda.take_all();
    let next = agenda.insert('c', Nanos::new(1));
    assert_eq!((taken.get(key), taken.get(next), agenda.get(key)), (Some(&'a'), None, None));
    assert_eq!(taken.pop_due(Nanos::new(1)).map(|entry| entry.key), Some(key));
    assert_eq!(size_of::<Key>(), 16);
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
fn with_an_entry_that_was_put_off_those_behind_it_move_that_were_put_off_too_as_far_as_moves_are_granted() {
    let at = |n: u64| Nanos::new((1 << 20) + 1_000 * n);
    let mut agenda = Agenda::new();
    let keys: Vec<Key> = (0..6).map(|n| agenda.insert(n, at(n))).collect();
    for &key in &keys[..4] {
        assert!(agenda.reset(key, Nanos::new(1 << 40)));
    }
    // The last two were not put off, and cost nothing.
    for (now, granted, left) in [(0, 2, 0), (1, 20, 20), (2, 20, 18), (3, 20, 20)] {
        let mut moves = granted;
        assert_eq!((agenda.pop_due_within(at(now), &mut moves), moves), (Popped::Idle, left), "{now}");
        agenda.check();
    }
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
    // Then it takes as much as its documentation says: with a deadline in a minute, and in a second, too.
    let mut agenda = Agenda::new();
    let mut bytes = |deadline: u64| {
        agenda.insert(1, Nanos::new(deadline));
        agenda.allocated_bytes()
    };
    let (minute, second) = (bytes(60_000_000_000), bytes(1_000_000_000));
    assert!((7_000..10_000).contains(&minute), "{minute} bytes");
    assert!((14_000..18_000).contains(&second), "{second} bytes");
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

#[test]
fn the_next_deadline_that_was_found_is_forgotten_when_its_entry_leaves_or_moves_or_another_comes_first() {
    let at = Nanos::new;
    let mut agenda = Agenda::new();
    let keys: Vec<_> = (0..1_000_u64).map(|n| agenda.insert(n, at(1_000 + n * 7_919 % 1_009))).collect();
    assert_eq!(agenda.next_deadline(), Some(at(1_000)));
    // Others leave and move.
    assert!(agenda.reset(keys[1], at(5_000)) && agenda.remove(keys[2]).is_some());
    assert_eq!(agenda.next_deadline(), Some(at(1_000)));
    assert!(agenda.reset(keys[0], at(6_000)));
    let second = agenda.next_deadline().unwrap();
    assert!(second > at(1_000) && second < at(1_020));
    // One that comes to the same moment, to an earlier one, or moves there; and another at the index of one that has left.
    let same = agenda.insert(0, second);
    assert_eq!(agenda.next_deadline(), Some(second));
    assert!(agenda.reset(keys[3], at(500)));
    assert_eq!(agenda.next_deadline(), Some(at(500)));
    let first = agenda.insert(0, at(400));
    assert_eq!(agenda.next_deadline(), Some(at(400)));
    assert!(agenda.remove(first).is_some() && agenda.remove(keys[3]).is_some());
    assert_ne!(agenda.insert(0, at(7_000)), first);
    assert_eq!(agenda.next_deadline(), Some(second));
    assert!(agenda.remove(same).is_some());
    assert_eq!(agenda.next_deadline(), Some(second));
    assert_eq!(agenda.pop_due(second).map(|entry| entry.deadline), Some(second));
    assert!(agenda.next_deadline() > Some(second));
    let rest = agenda.take_all();
    assert_eq!((agenda.next_deadline(), rest.len()), (None, 1_000 - 3 + 1));
}
