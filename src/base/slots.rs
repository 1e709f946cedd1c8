//! A generational arena. The [`Key`] of a removed value never becomes the key of another one: the slot is reused, the generation is
//! not. A key fits into a `usize`, so it can be the token of a poll registration.

/// Identifies one value in one slot, also after it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    ix: u32,
    generation: u32,
}

impl Key {
    pub fn pack(self) -> usize {
        ((self.generation as usize) << HALF) | self.ix as usize
    }

    pub fn unpack(packed: usize) -> Key {
        Key { ix: (packed & (usize::MAX >> HALF)) as u32, generation: (packed >> HALF) as u32 }
    }
}

/// The number of bits of an index, and of a generation, so that both fit into a `usize`. On 32-bit machines a key repeats after its slot was
/// reused 65,536 times.
const HALF: u32 = usize::BITS / 2;
const GENERATIONS: u32 = u32::MAX >> (32 - HALF);

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by key. Insertion and removal are O(1); iteration visits slots in index order, so it is deterministic.
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub fn insert(&mut self, value: T) -> Key {
        match self.free.pop() {
            Some(ix) => {
                let slot = &mut self.slots[ix as usize];
                slot.value = Some(value);
                Key { ix, generation: slot.generation }
            }
            None => {
                let ix = u32::try_from(self.slots.len()).expect("every user has a cap below the number of indices");
                self.slots.push(Slot { generation: 0, value: Some(value) });
                Key { ix, generation: 0 }
            }
        }
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.ix as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1) & GENERATIONS;
        self.free.push(key.ix);
        Some(value)
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.ix as usize)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.ix as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(ix, slot)| {
            let key = Key { ix: ix as u32, generation: slot.generation };
            slot.value.as_ref().map(|value| (key, value))
        })
    }

    pub fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slots = Slots::default();
        let first = slots.insert("a");
        assert_eq!(slots.remove(first), Some("a"));
        let second = slots.insert("b");
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get(second), Some(&"b"));
        assert_eq!(Key::unpack(second.pack()), second);
        assert_eq!(slots.len(), 1);
        assert_eq!(slots.keys(), vec![second]);
    }
}
