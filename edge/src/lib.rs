//! What both programs have around their cores: where the cluster is ([`kubeconfig`]) and how to speak to it
//! ([`connection`]), whether they are ready ([`readiness`]), bounded tasks for whoever connects ([`slots`]), and what settings
//! say ([`values`]).

pub mod connection;
pub mod kubeconfig;
pub mod log;
pub mod readiness;
pub mod server;
pub mod slots;
pub mod text;
pub mod values;
