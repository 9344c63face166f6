//! The hash that placement uses. It never changes: agents of different versions must agree.

use std::fmt::Write;

/// The hash of a node's name, or of an address as it is written: FNV-1a, then finished by [`mix`].
#[must_use]
pub fn seed(text: &(impl std::fmt::Display + ?Sized)) -> u64 {
    struct Fnv(u64);
    impl Write for Fnv {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 = text.bytes().fold(self.0, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
            Ok(())
        }
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    // Writing to a number cannot fail.
    let _ = write!(hash, "{text}");
    mix(hash.0, 0)
}

/// Combines two hashes by the finisher of `SplitMix64`: each bit of either changes half of the result's bits.
#[must_use]
pub const fn mix(a: u64, b: u64) -> u64 {
    let z = (a ^ b.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Should these change, agents of two versions would place every VIP twice.
    #[test]
    fn the_hash_never_changes() {
        assert_eq!((seed("worker-1"), mix(1, 2)), (SEED, MIXED));
    }

    const SEED: u64 = 941_000_182_080_513_696;
    const MIXED: u64 = 14_160_868_677_571_091_529;
}
