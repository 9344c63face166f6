//! What is given to users beside the programs.

mod objects;

pub use objects::objects;
