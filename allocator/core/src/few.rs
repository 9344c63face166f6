//! Lists in messages for people: the first few of many.

use std::fmt::Display;

/// The most that are named.
pub const NAMED: usize = 5;

/// The first few, and how many more there are: a status must not grow with what it is about. Otherwise the API server refuses
/// it one day.
pub fn few<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let mut all = all.into_iter();
    let mut named: Vec<String> = all.by_ref().take(NAMED).map(|one| one.to_string()).collect();
    match all.count() {
        0 => {}
        more => named.push(format!("and {more} more")),
    }
    named.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_are_named() {
        assert_eq!(few(["a"; 0]), "");
        assert_eq!(few(["a", "b"]), "a; b");
        assert_eq!(few(1..=5), "1; 2; 3; 4; 5");
        assert_eq!(few(1..=8), "1; 2; 3; 4; 5; and 3 more");
    }
}
