//! What decides. Nothing in here knows tokio, kube, a clock or a socket: it is given `now` and what was seen, and
//! answers with what to do. The edges (`api`, `datapath`, `segment`) translate.

pub mod health;
pub mod lease;
pub mod mac;
pub mod time;
