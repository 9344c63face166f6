//! The blocks of one network that are in use, and by whom.

use std::collections::BTreeMap;

use crate::block::Block;

/// The holder of a block. The numbers are slots, given out by the keeper of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// An `IPAddress` that was shown.
    Object(u32),
    /// A claim for which an `IPAddress` is about to be created.
    Reserved(u32),
    /// A pool that keeps the block for a claim (`preAllocations`).
    Kept(u32),
}

/// Usually a block has one holder; more holders appear only after an error, or shortly before one is corrected.
#[derive(Clone, Debug)]
#[expect(clippy::box_collection, reason = "there are many, and hardly any has more than one: 16 bytes, not 24")]
enum Holders {
    One(Holder),
    Many(Box<Vec<Holder>>),
}

impl Holders {
    fn as_slice(&self) -> &[Holder] {
        match self {
            Self::One(holder) => std::slice::from_ref(holder),
            Self::Many(all) => all.as_slice(),
        }
    }
}

/// Blocks in use. Blocks are nested or disjoint. So the blocks that overlap with a block are found by one look-up for
/// each length in use, and by a walk through the blocks inside it.
#[derive(Clone, Debug, Default)]
pub struct Used {
    blocks: BTreeMap<Block, Holders>,
    /// The number of blocks of each length.
    lengths: BTreeMap<u8, u32>,
}

impl Used {
    /// Adds a holder to a block.
    pub fn insert(&mut self, block: Block, holder: Holder) {
        match self.blocks.get_mut(&block) {
            None => {
                self.blocks.insert(block, Holders::One(holder));
                *self.lengths.entry(block.length()).or_default() += 1;
            }
            Some(Holders::Many(all)) => all.push(holder),
            Some(one) => *one = Holders::Many(Box::new([one.as_slice(), &[holder]].concat())),
        }
    }

    /// Removes a holder from a block.
    pub fn remove(&mut self, block: Block, holder: Holder) {
        let Some(holders) = self.blocks.get_mut(&block) else { return };
        let left: Vec<Holder> = holders.as_slice().iter().copied().filter(|&h| h != holder).collect();
        match left[..] {
            [] => {
                self.blocks.remove(&block);
                if let Some(count) = self.lengths.get_mut(&block.length()) {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&block.length());
                    }
                }
            }
            [one] => *holders = Holders::One(one),
            _ => *holders = Holders::Many(Box::new(left)),
        }
    }

    /// The blocks that contain this block (without the block itself).
    fn above(&self, block: Block) -> impl Iterator<Item = (Block, &Holders)> + '_ {
        let lengths = self.lengths.range(..block.length()).map(|(&length, _)| length);
        lengths.filter_map(move |length| {
            let wider = Block::around(block.first(), length);
            self.blocks.get(&wider).map(|h| (wider, h))
        })
    }

    /// The block itself and those inside it, in order.
    fn inside(&self, block: Block) -> impl Iterator<Item = (Block, &Holders)> + '_ {
        self.blocks.range(block..).take_while(move |(b, _)| b.first() <= block.last()).map(|(&b, h)| (b, h))
    }

    /// All blocks that have an address in common with a block.
    pub fn overlapping(&self, block: Block) -> impl Iterator<Item = (Block, Holder)> + '_ {
        let all = self.above(block).chain(self.inside(block));
        all.flat_map(|(b, holders)| holders.as_slice().iter().map(move |&h| (b, h)))
    }

    /// The extent of what is in a block's way: the first and the last address of the widest block around it, or the
    /// block's own ends if something lies inside it. None: nobody has an address of the block.
    #[must_use]
    pub fn in_the_way(&self, block: Block) -> Option<(u128, u128)> {
        let around = self.above(block).map(|(wider, _)| (wider.first(), wider.last())).next();
        around.or_else(|| self.inside(block).next().map(|_| (block.first(), block.last())))
    }

    /// The blocks with an address in common with a range of addresses, in order; the wider blocks around the range's
    /// start first.
    pub fn in_range(&self, first: u128, last: u128) -> impl Iterator<Item = Block> + '_ {
        let start = Block::around(first, 128);
        let above = self.above(start).map(|(b, _)| b);
        // The blocks that contain the first address came before; now the blocks that begin later, and the first address
        // itself.
        let inside = self.blocks.range(start..).map(|(&b, _)| b);
        above.chain(inside.take_while(move |b| b.first() <= last))
    }
}
