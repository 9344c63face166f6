//! The parts that both programs share around their cores: the cluster's address ([`kubeconfig`]), the API client
//! ([`api`]), Events ([`events`]), the clocks ([`clock`]), settings ([`settings`], [`values`]), readiness
//! ([`readiness`]), and the HTTP pages ([`server`]).

#![warn(missing_docs)]

pub mod api;
pub mod backoff;
pub mod clock;
pub mod connection;
pub mod events;
pub mod kubeconfig;
pub mod log;
pub mod print;
pub mod readiness;
pub mod server;
pub mod settings;
pub mod slots;
pub mod text;
pub mod values;
