//! What both programs have around their cores: where the cluster is ([`kubeconfig`]), bounded tasks for whoever connects
//! ([`slots`]), and what settings say ([`values`]).

pub mod kubeconfig;
pub mod log;
pub mod server;
pub mod slots;
pub mod text;
pub mod values;
