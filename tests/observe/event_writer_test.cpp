// What TensorBoard itself makes of these files is tested in peers_test.py; here are the parts that it does not show.
#include "observe/event_writer.h"

#include <limits>

#include <gmock/gmock.h>

#include "observe/temporary_folder.h"

namespace ddpm::observe {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::Not;
using EventWriterTest = TemporaryFolderTest;

const std::vector<Scalar> kOneScalar = {{"train/loss", 0.5}};

base::TimeSource stopped_at(double seconds) {
  return [seconds] { return seconds; };
}

TEST_F(EventWriterTest, CreatesNothingBeforeTheFirstEvent) {
  EventWriter writer(*files_, file("events"), "node1", 1, stopped_at(1700000000));
  writer.sync();
  EXPECT_EQ(file_count(), 0);
}

TEST_F(EventWriterTest, BeginsWithTheFileVersionRecord) {
  EventWriter writer(*files_, file("events"), "node1", 1, stopped_at(0));
  writer.write(1, kOneScalar);
  // Length 26, its masked CRC (TensorBoard checks that), Event{wall_time: 0, step: 0, file_version: "brain.Event:2"}.
  const std::string frame = read(file("events/events.out.tfevents.0000000000.node1")).substr(0, 8 + 4 + 26);
  EXPECT_EQ(frame.substr(0, 8), std::string("\x1a\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(frame.substr(12), std::string("\x09\0\0\0\0\0\0\0\0\x10\0\x1a\x0d", 13) + "brain.Event:2");
}

TEST_F(EventWriterTest, ALaterFileHasALaterNameWhateverTheClockSays) {
  for (const double now : {1700000000.0, 1700000000.5, 1600000000.0}) {
    EventWriter(*files_, file("events"), "node1", 1, stopped_at(now)).write(1, kOneScalar);
  }
  EXPECT_THAT(files_->list(file("events")),
              ElementsAre("events.out.tfevents.1700000000.node1", "events.out.tfevents.1700000001.node1",
                          "events.out.tfevents.1700000002.node1"));
}

TEST_F(EventWriterTest, AnEventCanBeReadAsSoonAsItWasWritten) {
  EventWriter writer(*files_, file("events"), "h", 1, stopped_at(0));
  writer.write(1, kOneScalar);
  const auto after_one = read(file("events/events.out.tfevents.0000000000.h")).size();
  writer.write(2, kOneScalar);
  EXPECT_GT(read(file("events/events.out.tfevents.0000000000.h")).size(), after_one);
}

TEST_F(EventWriterTest, GoesOnInANewFileWhereItsOwnWasRemoved) {
  EventWriter writer(*files_, file("events"), "h", 1, stopped_at(0));
  writer.write(7, kOneScalar);
  EXPECT_FALSE(writer.displaced());
  files_->remove_all(file("events"));
  EXPECT_TRUE(writer.displaced());
  writer.reopen();
  EXPECT_FALSE(writer.displaced());
  writer.write(9, kOneScalar);
  EXPECT_THAT(files_->list(file("events")), ElementsAre("events.out.tfevents.0000000000.h"));
  // Its second record, after the 42 bytes of the first: Event{wall_time: 0, step: 8, session_log{START}}: what earlier
  // files hold of step 8 and later ones does not count.
  const std::string second = read(file("events/events.out.tfevents.0000000000.h")).substr(42 + 12, 15);
  EXPECT_EQ(second, std::string("\x09\0\0\0\0\0\0\0\0\x10\x08\x3a\x02\x08\x01", 15));
}

TEST(ScalarsOf, LeavesOutWhatIsNotANumber) {
  StepMetrics metrics;
  metrics.loss = 0.25;
  metrics.loss_quartiles[2] = std::numeric_limits<double>::quiet_NaN();
  const auto scalars = scalars_of(metrics);
  EXPECT_THAT(scalars, Contains(AllOf(Field(&Scalar::tag, "train/loss"), Field(&Scalar::value, 0.25))));
  EXPECT_THAT(scalars, Contains(Field(&Scalar::tag, "train/loss_quartile_2")));
  EXPECT_THAT(scalars, Not(Contains(Field(&Scalar::tag, "train/loss_quartile_3"))));
  EXPECT_THAT(scalars, Not(Contains(Field(&Scalar::tag, "validation/loss"))));
  metrics.validation_loss = 0.5;
  EXPECT_THAT(scalars_of(metrics), Contains(AllOf(Field(&Scalar::tag, "validation/loss"), Field(&Scalar::value, 0.5))));
}

}  // namespace
}  // namespace ddpm::observe
