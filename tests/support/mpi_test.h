// For tests that run on several ranks: mpi_main.cpp starts MPI, runs the tests on every rank, and fails the program
// when any rank failed.
#pragma once

#include <gtest/gtest.h>

#include "comm/mpi_session.h"

namespace ddpm::test {

/// The session that main() owns. (Tests cannot be passed arguments, hence this one accessor.)
comm::MpiSession& session();
inline comm::Communicator& world() { return session().world(); }

}  // namespace ddpm::test
