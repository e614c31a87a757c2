#include "train/data_history.h"

#include <iterator>
#include <utility>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/json_fields.h"
#include "base/named.h"
#include "engine/limits.h"

namespace ddpm::train {
namespace {

constexpr const char* kHistory = "data_history";
constexpr const char* kSetImages = "set_images";
constexpr const char* kSetSlots = "set_slots";
constexpr const char* kSetOrders = "set_orders";
constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
constexpr int64_t kMaxImages = int64_t{1} << 53;

void write_shares(const std::vector<data::SetShare>& shares, base::Json& item) {
  if (shares.empty()) return;
  base::Json images = base::Json::array();
  base::Json slots = base::Json::array();
  for (const data::SetShare& share : shares) {
    images.push_back(share.images);
    slots.push_back(share.slots);
  }
  item[kSetImages] = std::move(images);
  item[kSetSlots] = std::move(slots);
}

std::vector<data::SetShare> read_shares(const base::JsonFields& fields) {
  std::vector<data::SetShare> shares;
  if (!fields.has(kSetImages) && !fields.has(kSetSlots)) return shares;
  const std::vector<int64_t> images = fields.integers(kSetImages);
  const std::vector<int64_t> slots = fields.integers(kSetSlots);
  if (images.size() != slots.size()) {
    throw base::OutputError("{}: '{}' has {}, '{}' {}; as many are wanted", fields.place(), kSetImages,
                            base::counted(std::ssize(images), "number"), kSetSlots, slots.size());
  }
  shares.reserve(images.size());
  for (std::size_t s = 0; s < images.size(); ++s) shares.push_back({.images = images[s], .slots = slots[s]});
  return shares;
}

}  // namespace

double passes_of(const std::vector<DataPeriod>& history, int64_t images_seen, int64_t global_size) {
  double passes = 0.0;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const int64_t end = i + 1 < history.size() ? history[i + 1].first_step * global_size : images_seen;
    passes += static_cast<double>(end - history[i].first_step * global_size) / static_cast<double>(history[i].pass);
  }
  return passes;
}

std::string text_of_earlier(const std::vector<DataPeriod>& history) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i + 1 < history.size(); ++i) {
    const DataPeriod& period = history[i];
    texts.push_back(fmt::format("{}, {}, {}", period.name, base::counted(period.images, "image"),
                                base::inclusive_range(period.first_step + 1, history[i + 1].first_step, "step")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void write_data_history(const std::vector<DataPeriod>& history, base::Json& state) {
  base::Json list = base::Json::array();
  for (const DataPeriod& period : history) {
    base::Json item = {{"first_step", period.first_step},
                       {"first_epoch", period.first_epoch},
                       {"images", period.images},
                       {"name", period.name},
                       {"content_hash", period.content_hash}};
    if (period.pass != period.images) item["pass"] = period.pass;
    write_shares(period.shares, item);
    if (period.set_orders != data::SetOrders::alike) item[kSetOrders] = base::name_of(period.set_orders);
    list.push_back(std::move(item));
  }
  state[kHistory] = list.dump();
}

std::vector<DataPeriod> read_data_history(const base::Json& state, const std::string& origin) {
  if (!state.contains(kHistory)) return {};
  const std::string place = origin + ": '" + kHistory + "'";
  const base::JsonFields whole(state, origin, {kHistory}, base::JsonFields::Others::ignored);
  const base::Json list = base::parse_json_file(whole.text(kHistory), place, kMaxBytes);
  if (!list.is_array() || list.empty()) {
    throw base::OutputError("{} is {}; a list of sets is wanted", place, base::excerpt(state[kHistory]));
  }
  const int64_t last_step = whole.has("step") ? whole.integer("step", 0, engine::kMaxSteps) : engine::kMaxSteps;
  std::vector<DataPeriod> history;
  for (const base::Json& item : list) {
    const DataPeriod before = history.empty() ? DataPeriod() : history.back();
    const base::JsonFields fields(item, place, {"first_step", "first_epoch", "images", "name", "content_hash"},
                                  {"pass", kSetImages, kSetSlots, kSetOrders});
    const int64_t images = fields.integer("images", 1, kMaxImages);
    history.push_back(
        {.first_step = fields.integer("first_step", before.first_step, last_step),
         .first_epoch = fields.integer("first_epoch", before.first_epoch, engine::kMaxSteps),
         .images = images,
         .pass = fields.has("pass") ? fields.integer("pass", 1, kMaxImages) : images,
         .name = fields.text("name"),
         .content_hash = fields.text("content_hash"),
         .shares = read_shares(fields),
         .set_orders = fields.has(kSetOrders) ? fields.named<data::SetOrders>(kSetOrders) : data::SetOrders::alike});
  }
  return history;
}

}  // namespace ddpm::train
