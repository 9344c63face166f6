//! Interleavings.
