//! Plays KWOK's stages: one player for each kind that has stages. What an object follows, and what that writes, the crate `kstore-kwok`
//! decides; here are the watches, the deadlines and the writes.

mod addresses;
mod jobs;
pub(crate) mod object;
mod play;
mod player;
#[cfg(test)]
mod tests;

pub(crate) use addresses::{NodeAddress, StageNodes};
pub(crate) use player::{Player, PlayerParts};
