// stdin, stdout and stderr of a process that was started without one of them.
#pragma once

namespace ddpm::base {

/// Opens /dev/null in place of a standard stream that is closed. Otherwise the next file that the process opens would
/// get the stream's number, and with it the lines that are meant for people. Calls nothing but the system.
void open_standard_streams();

}  // namespace ddpm::base
