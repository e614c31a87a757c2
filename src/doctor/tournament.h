// Who plays whom: every player meets every other once, in rounds in which each plays at most once.
#pragma once

namespace ddpm::doctor {

/// Rounds for `players`: one less than their number, or as many where that is odd and one rests in each round.
int tournament_rounds(int players);

/// Whom `player` (from 0) meets in `round` (from 0); -1: nobody. The circle method of round-robin
/// tournaments: of an even number m the last stays where it is, the others meet whose numbers sum to the round's modulo
/// m - 1, and who would meet himself meets the last.
int opponent(int players, int round, int player);

}  // namespace ddpm::doctor
