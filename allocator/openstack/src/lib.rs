//! What OpenStack says and is told about floating IPs. Pure: the program around it sends the requests.
//!
//! - *Who asks*: [`clouds`] reads the clouds.yaml of a Secret; [`identity`] makes Keystone's requests and reads its tokens and
//!   its catalog. A [`secret`] shows itself in no log.
//! - *What is asked*: [`neutron`] makes the requests for floating IPs and networks and reads the answers; [`fault`] says what
//!   an answer means that is no success.
//! - *Whose is it*: [`mark`] is what is written into a floating IP's description, in the request that makes it.
//! - *What a pool allows*: [`rules`]: which address a claim gets, whether one may be created, and how one is let go.

#![warn(missing_docs)]

pub mod clouds;
pub mod fault;
pub mod identity;
pub mod mark;
pub mod neutron;
pub mod query;
pub mod rules;
pub mod secret;
pub mod spec;

/// The longest text of OpenStack's that is passed on, in characters.
const LONGEST: usize = 300;

/// A text on one line, cut.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}
