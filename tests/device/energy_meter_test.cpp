#include "device/energy_meter.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>

#include "support/temporary_folder.h"

namespace ddpm::device {
namespace {

/// A sysfs of a node with two processors, whose first one's counter is about to begin anew.
class EnergyMeters : public testing::Test {
 protected:
  EnergyMeters() {
    domain("intel-rapl:0", "package-0", 262'143'328'850, 262'143'000'000);
    domain("intel-rapl:1", "package-1", 262'143'328'850, 1'000'000);
    domain("intel-rapl:0:0", "core", 262'143'328'850, 5);
    domain("intel-rapl:2", "psys", 262'143'328'850, 7);
  }

  void domain(const std::string& name, const std::string& what, uint64_t range, uint64_t energy) {
    std::filesystem::create_directories(places_.powercap / name);
    test::write_text(places_.powercap / name / "name", what + "\n");
    test::write_text(places_.powercap / name / "max_energy_range_uj", std::to_string(range) + "\n");
    set(name, energy);
  }
  void set(const std::string& name, uint64_t energy) {
    test::write_text(places_.powercap / name / "energy_uj", std::to_string(energy) + "\n");
  }
  void set_cray(const std::string& text) {
    std::filesystem::create_directories(places_.cray);
    test::write_text(places_.cray / "energy", text);
  }

  test::TemporaryFolder root_;
  EnergyPlaces places_{
      .powercap = root_.path() / "powercap", .cray = root_.path() / "cray", .nvml = "no-such-library.so"};
};

TEST_F(EnergyMeters, PackagesAreSummedAndTheirPartsAreNot) {
  EnergyMeter meter({}, places_);
  EXPECT_EQ(meter.source(), "RAPL");
  EXPECT_EQ(meter.joules(), 0.0);
  set("intel-rapl:1", 3'500'000);
  set("intel-rapl:0:0", 9'000'000);
  set("intel-rapl:2", 9'000'000);
  meter.update();
  EXPECT_DOUBLE_EQ(meter.joules().value(), 2.5);
}

TEST_F(EnergyMeters, ACounterThatBeginsAnewCountsOn) {
  EnergyMeter meter({}, places_);
  set("intel-rapl:0", 671'150);  // 328'850 up to the range, and so much after it
  meter.update();
  EXPECT_NEAR(meter.joules().value(), 1.0, 1e-9);
  set("intel-rapl:0", 1'671'150);
  meter.update();
  EXPECT_NEAR(meter.joules().value(), 2.0, 1e-9);
}

TEST_F(EnergyMeters, TheWholeNodesCounterIsTakenAloneWhereThereIsOne) {
  set_cray("120000 J 1700000000 us\n");
  EnergyMeter meter({}, places_);
  EXPECT_EQ(meter.source(), "pm_counters");
  set_cray("120450 J 1700000001 us\n");
  set("intel-rapl:1", 3'500'000);
  meter.update();
  EXPECT_EQ(meter.joules(), 450.0);
  set_cray("50 J 1700000002 us\n");  // set back, as after a restart of the node's controller: counts from there
  meter.update();
  EXPECT_EQ(meter.joules(), 450.0);
  set_cray("80 J 1700000003 us\n");
  meter.update();
  EXPECT_EQ(meter.joules(), 480.0);
}

TEST_F(EnergyMeters, WhatCannotBeReadIsNotCounted) {
  set_cray("no number\n");
  test::write_text(places_.powercap / "intel-rapl:1" / "energy_uj", "");
  const EnergyMeter meter({"0000:18:00.0"}, places_);
  EXPECT_EQ(meter.source(), "");
  EXPECT_EQ(meter.joules(), std::nullopt);
}

TEST_F(EnergyMeters, AreNotWholeWhileOneCounterDoesNotAnswer) {
  set_cray("120000 J 1700000000 us\n");
  EnergyMeter meter({}, places_);
  set_cray("no number\n");
  meter.update();
  EXPECT_EQ(meter.joules(), std::nullopt);
  set_cray("120900 J 1700000009 us\n");
  meter.update();
  EXPECT_EQ(meter.joules(), 900.0);
}

TEST_F(EnergyMeters, AWatchSeesACounterBeginAnewBetweenQuestions) {
  EnergyWatch watch({}, places_, std::chrono::milliseconds(5));
  const auto reads = [&](double joules) {
    for (int i = 0; i < 2000 && watch.joules().value() < joules; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return watch.joules().value();
  };
  set("intel-rapl:0", 671'150);
  EXPECT_NEAR(reads(1.0 - 1e-6), 1.0, 1e-9);
  EXPECT_EQ(watch.source(), "RAPL");
}

}  // namespace
}  // namespace ddpm::device
