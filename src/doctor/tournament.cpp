#include "doctor/tournament.h"

namespace ddpm::doctor {
namespace {

int even(int players) { return players + players % 2; }

}  // namespace

int tournament_rounds(int players) { return players < 2 ? 0 : even(players) - 1; }

int opponent(int players, int round, int player) {
  const int last = even(players) - 1;  // m - 1; of an odd number of players it is nobody
  int other = 0;
  if (player == last) {
    other = static_cast<int>(static_cast<long long>(round) * ((last + 1) / 2) % last);  // m / 2 is 1 / 2 modulo m - 1
  } else {
    other = ((round - player) % last + last) % last;
    if (other == player) other = last;
  }
  return other < players ? other : -1;
}

}  // namespace ddpm::doctor
