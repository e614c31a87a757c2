// Results on stdout, which nobody else writes to, and the three descriptors that every process is expected to have.
#pragma once

#include <string_view>

namespace ddpm::base {

/// Opens /dev/null in place of each of stdin, stdout and stderr that is closed (`ddpm ... >&-`). Otherwise the next
/// file that is opened gets its number, and results or messages are written into a data set or a checkpoint. Reading
/// from such a stdin and writing to such a stdout fail as they do on a closed descriptor. Call it before files are
/// opened.
void reserve_standard_streams();

/// From now on a pipe whose reader has left makes a write fail with EPIPE instead of ending the process: work continues
/// when nobody reads its messages any more.
void outlive_readers();

/// Writes all of `text` to stdout and waits until the file system has taken it. Throws OutputError ("standard output:
/// cannot write: No space left on device, after 4096 of 14663 bytes") when a byte of it is lost.
///
/// A pipe whose reader has left (`ddpm ... | head -1`) is not an error: the program continues, and ends by SIGPIPE in
/// end_if_reader_left(), as the shell's own tools do. Where the parent process has SIGPIPE ignored it is an error.
void write_standard_output(std::string_view text);

/// Ends the process by SIGPIPE if write_standard_output() found that its reader has left. Call it last in main().
void end_if_reader_left();

/// Whether stdout is a terminal.
bool stdout_is_terminal();

}  // namespace ddpm::base
