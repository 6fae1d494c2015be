//! The functions that the library exports (`spec/nrt-abi.md` 4), by what they are about. Each looks at
//! its pointers, does its work behind the guard that stops panics, and answers a status.
//!
//! | module | what lives there |
//! |---|---|
//! | [`life`] | opening, closing |
//! | [`info`] | counts, versions, what the machine is |
//! | [`tensors`] | allocating, freeing, slices, addresses |
//! | [`transfers`] | reading, writing, filling, copying |
//! | [`sharing`] | statistics, and ways for other programs to reach memory |
//! | [`sets`] | tensor sets |
//! | [`models`] | what cannot be done here: models, profiles, traces |
//!
//! Enumerations come as plain integers, as C has them, and values that are none are refused. In every
//! call that takes them: a pointer that is not NULL has to lead to what the prototype says. A handle may
//! be anything.

pub mod info;
pub mod life;
pub mod models;
pub mod sets;
pub mod sharing;
pub mod tensors;
pub mod transfers;
