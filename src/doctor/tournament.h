// Pairs players so that every player meets every other once, in rounds in which each plays at most once.
#pragma once

namespace ddpm::doctor {

/// Rounds for `players`: one less than their number, or as many where that is odd and one rests in each round.
int tournament_rounds(int players);

/// Returns the opponent of `player` (from 0) in `round` (from 0), or -1 if it rests. This is the circle method of
/// round-robin tournaments: with an even number m of players, two of the others meet when their numbers sum to the
/// round's modulo m - 1, and the one that would meet itself meets the last player.
int opponent(int players, int round, int player);

}  // namespace ddpm::doctor
