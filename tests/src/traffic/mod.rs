//! Real traffic: what kube-proxy sends on to the programs behind a Service, and a client that asks them.

mod ask;
mod backend;
mod proxy;
mod stream;

pub use ask::{Answer, Protocol, ask};
pub use backend::Backend;
pub use proxy::start as start_proxy;
pub use stream::{Asked, Stream};
