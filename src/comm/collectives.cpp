#include "comm/collectives.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/file_error.h"
#include "comm/message_tags.h"
#include "comm/odd_ranks.h"

namespace ddpm::comm {
namespace {

struct Failure {
  int64_t code = 0;
  std::string text = {};
  bool is_access = false;
};

/// What `work` threw, if anything. An exception that is none of ours is a bug.
std::optional<Failure> failure_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const base::Error& error) {
    const bool is_access = dynamic_cast<const base::AccessError*>(&error) != nullptr ||
                           dynamic_cast<const base::DatasetAccessError*>(&error) != nullptr;
    return Failure{static_cast<int64_t>(error.code()), error.what(), is_access};
  } catch (const std::exception& error) {
    return Failure{static_cast<int64_t>(base::ExitCode::bug), error.what()};
  } catch (...) {
    return Failure{static_cast<int64_t>(base::ExitCode::bug), "an exception of unknown type"};
  }
}

Buffer buffer_of(std::string& text) { return {text.data(), static_cast<int64_t>(text.size()), base::DType::u8}; }

int64_t broadcast(Communicator& comm, int64_t value, int root) {
  comm.broadcast({&value, 1, base::DType::i64}, root).wait();
  return value;
}

/// The length of each rank's text, on every rank.
std::vector<int64_t> lengths_of(Communicator& comm, const std::string& text) {
  const auto length = static_cast<int64_t>(text.size());
  std::vector<int64_t> lengths(static_cast<std::size_t>(comm.size()));
  comm.all_gather({&length, 1, base::DType::i64}, {lengths.data(), std::ssize(lengths), base::DType::i64}).wait();
  return lengths;
}

/// Throws `failure` of `failed_rank` on every rank.
[[noreturn]] void throw_together(Communicator& comm, const std::optional<Failure>& failure, int failed_rank) {
  const Failure mine = failure.value_or(Failure{});
  const int64_t code = broadcast(comm, mine.code, failed_rank);
  const std::string text = broadcast(comm, mine.text, failed_rank);
  const bool is_access = broadcast(comm, int64_t{mine.is_access}, failed_rank) != 0;
  throw AgreedError(static_cast<base::ExitCode>(code), text, failed_rank, comm.rank() == failed_rank, is_access);
}

}  // namespace

void all_reduce(Communicator& comm, std::span<double> values, ReduceOp op) {
  comm.all_reduce({values.data(), std::ssize(values), base::DType::f64}, op).wait();
}

void all_reduce(Communicator& comm, std::span<int64_t> values, ReduceOp op) {
  comm.all_reduce({values.data(), std::ssize(values), base::DType::i64}, op).wait();
}

double all_reduce(Communicator& comm, double value, ReduceOp op) {
  all_reduce(comm, std::span(&value, 1), op);
  return value;
}

int64_t all_reduce(Communicator& comm, int64_t value, ReduceOp op) {
  all_reduce(comm, std::span(&value, 1), op);
  return value;
}

std::string broadcast(Communicator& comm, std::string text, int root) {
  text.resize(static_cast<std::size_t>(broadcast(comm, static_cast<int64_t>(text.size()), root)));
  comm.broadcast(buffer_of(text), root).wait();
  return text;
}

std::vector<std::string> all_gather(Communicator& comm, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::vector<int64_t> lengths = lengths_of(comm, text);
  // Parts of an all-gather are equally long: each text is padded to the longest.
  const auto width = static_cast<std::size_t>(*std::ranges::max_element(lengths));
  std::string padded = text;
  padded.resize(width);
  std::string all(width * ranks, '\0');
  comm.all_gather(buffer_of(padded), buffer_of(all)).wait();

  std::vector<std::string> texts;
  texts.reserve(ranks);
  for (std::size_t i = 0; i < ranks; ++i) texts.push_back(all.substr(i * width, static_cast<std::size_t>(lengths[i])));
  return texts;
}

std::vector<std::string> gather(Communicator& comm, std::string text, int root) {
  const std::vector<int64_t> lengths = lengths_of(comm, text);
  if (comm.rank() != root) {
    if (!text.empty()) comm.send(buffer_of(text), root, tags::kGathered).wait();
    return {};
  }
  std::vector<std::string> texts(lengths.size());
  std::vector<Work> messages;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (static_cast<int>(rank) == root || lengths[rank] == 0) continue;
    texts[rank].resize(static_cast<std::size_t>(lengths[rank]));
    messages.push_back(comm.receive(buffer_of(texts[rank]), static_cast<int>(rank), tags::kGathered));
  }
  for (Work& message : messages) message.wait();
  texts[static_cast<std::size_t>(root)] = std::move(text);
  return texts;
}

std::vector<double> all_gather(Communicator& comm, std::span<const double> values) {
  std::vector<double> all(values.size() * static_cast<std::size_t>(comm.size()));
  comm.all_gather({values.data(), std::ssize(values), base::DType::f64},
                  {all.data(), std::ssize(all), base::DType::f64})
      .wait();
  return all;
}

void barrier(Communicator& comm) { comm.barrier().wait(); }

void agree(Communicator& comm, const std::function<void()>& work) {
  const auto failure = failure_of(work);
  const int64_t none = comm.size();
  const int64_t failed_rank = all_reduce(comm, failure ? comm.rank() : none, ReduceOp::min);
  if (failed_rank != none) throw_together(comm, failure, static_cast<int>(failed_rank));
}

void expect_same(Communicator& comm, const std::string& what, const std::string& text) {
  const std::vector<std::string> texts = all_gather(comm, text);
  std::vector<int64_t> all(texts.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const OddRanks odd = find_odd_ranks(all, texts);
  if (odd.ranks.empty()) return;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    constexpr std::size_t kNamed = 16;
    const std::span named = std::span(odd.ranks).first(std::min(odd.ranks.size(), kNamed));
    throw base::CommunicationError("ranks disagree on the {}: {} of {} differ from {}: rank {}{}", what,
                                   odd.ranks.size(), comm.size(),
                                   odd.tie ? fmt::format("rank {}", odd.usual) : std::string("the others"),
                                   fmt::join(named, ", "), odd.ranks.size() > kNamed ? ", ..." : "");
  });
}

std::string agree_on_root(Communicator& comm, const std::function<std::string()>& work, int root) {
  std::string text;
  std::optional<Failure> failure;
  if (comm.rank() == root) failure = failure_of([&] { text = work(); });
  if (broadcast(comm, int64_t{failure.has_value()}, root) != 0) throw_together(comm, failure, root);
  return broadcast(comm, std::move(text), root);
}

void do_on_root(Communicator& comm, const std::function<void()>& work) {
  agree_on_root(comm, [&] {
    work();
    return std::string();
  });
}

int64_t number_on_root(Communicator& comm, const std::function<int64_t()>& work) {
  return std::stoll(agree_on_root(comm, [&] { return std::to_string(work()); }));
}

bool ask_root(Communicator& comm, const std::function<bool()>& question) {
  return number_on_root(comm, [&] { return question() ? 1 : 0; }) != 0;
}

}  // namespace ddpm::comm
