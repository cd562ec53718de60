//! `Slots`: the slots of all levels.
//!
//! Rules:
//!
//! * Nothing is made before the first timer is filed. Then all slots are made, so that nothing is allocated when a timer is filed on a
//!   new level later; or, if the wheel is to take little memory, those of the level that is needed. What has been made stays.
//! * A slot that has not been made has no timers. Whoever files one makes it; one that waits, is open or is dealt has been made.

use std::ops::{Index, IndexMut};

use super::level::{LEVELS, SLOTS, SlotId};
use super::slot::Slot;

/// The slots of the wheel.
#[derive(Debug)]
pub(super) struct Slots<K, const SHORT: usize> {
    /// Those of each level, and behind them the one that is [dealt](SlotId::DEALT), alone.
    levels: [Box<[Slot<K, SHORT>]>; LEVELS + 1],
    /// A level is made when it is needed.
    pub(super) by_level: bool,
}

impl<K: Copy + Eq, const SHORT: usize> Slots<K, SHORT> {
    /// None is made.
    pub(super) fn new() -> Slots<K, SHORT> {
        Slots { levels: std::array::from_fn(|_| Box::default()), by_level: false }
    }

    /// The slot, if it has been made. [`SlotId::TREE`] never is.
    #[inline]
    pub(super) fn get(&self, id: SlotId) -> Option<&Slot<K, SHORT>> {
        self.levels.get(id.level())?.get(id.slot())
    }

    /// The same, mutable.
    #[inline]
    pub(super) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot<K, SHORT>> {
        self.levels.get_mut(id.level())?.get_mut(id.slot())
    }

    /// The slot, which is made if it has not been.
    #[inline]
    pub(super) fn make(&mut self, id: SlotId) -> &mut Slot<K, SHORT> {
        if self.levels[id.level()].is_empty() {
            self.make_level(id.level());
        }
        &mut self[id]
    }

    #[cold]
    fn make_level(&mut self, level: usize) {
        let needed = if self.by_level { level..level + 1 } else { 0..self.levels.len() };
        for level in needed {
            let slots = if level < LEVELS { SLOTS } else { 1 };
            self.levels[level] = (0..slots).map(|_| Slot::new()).collect();
        }
    }

    /// All that have been made.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot<K, SHORT>> {
        self.levels.iter().flatten()
    }
}

impl<K: Copy + Eq, const SHORT: usize> Index<SlotId> for Slots<K, SHORT> {
    type Output = Slot<K, SHORT>;

    #[inline]
    fn index(&self, id: SlotId) -> &Slot<K, SHORT> {
        &self.levels[id.level()][id.slot()]
    }
}

impl<K: Copy + Eq, const SHORT: usize> IndexMut<SlotId> for Slots<K, SHORT> {
    #[inline]
    fn index_mut(&mut self, id: SlotId) -> &mut Slot<K, SHORT> {
        &mut self.levels[id.level()][id.slot()]
    }
}
