// Tags of the messages between two ranks of a Communicator, in one list: no two kinds of messages share one, so that
// none is taken for another however the work on a communicator is ordered. Messages without a tag have 0, and all lie
// below MpiCommunicator::kFirstRingTag.
#pragma once

namespace ddpm::comm::tags {

inline constexpr int kImages = 1;        ///< drawn images, to rank 0
inline constexpr int kWeightPart = 2;    ///< parts of weights that are cut by channels
inline constexpr int kActivations = 3;   ///< activations and gradients between the stages of a pipeline
inline constexpr int kAnswer = 4;        ///< what the last stage answers, to the others
inline constexpr int kConnect = 5;       ///< a byte with which stages meet for the first time
inline constexpr int kStageWeights = 6;  ///< weights of a stage, to the first one
inline constexpr int kLink = 7;          ///< what `ddpm doctor` measures links with
inline constexpr int kClock = 8;         ///< readings of clocks
inline constexpr int kTraceBytes = 9;    ///< how long a rank's part of a trace is
inline constexpr int kTraceEvents = 10;
inline constexpr int kGathered = 11;        ///< texts of gather()
inline constexpr int kMarginForward = 12;   ///< margins of tiles, to the next one along an axis
inline constexpr int kMarginBackward = 13;  ///< margins of tiles, to the one before
inline constexpr int kFirstBorder = 32;     ///< borders of tiles: 27 of them, one for each direction

}  // namespace ddpm::comm::tags
