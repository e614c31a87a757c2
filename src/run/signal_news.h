// Connects the signal handlers with the thread that tells people about signals (run/interruption.h).
#pragma once

#include <string>

namespace ddpm::run {

/// Called by handlers: makes the Interruption, if there is one, look for new signals.
void tell_of_signal();

/// The signal that asked this rank to stop, "SIGTERM"; empty when none has.
std::string received_stop_signal();

}  // namespace ddpm::run
