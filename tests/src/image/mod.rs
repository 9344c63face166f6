//! Images FROM scratch, and the archives that they are in: the same files give the same bytes.

pub mod archive;
mod oci;

pub use oci::{Image, Layer};
