// Launchers' environments, as seen under mpirun, srun and in batch shells of Slurm 22.05 with Open MPI 4.1.
#include "comm/launch.h"

#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/job.h"
#include "comm/mpi_library.h"

namespace ddpm::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

struct Case {
  const char* name;
  Variables variables;
  int world_size;
  const char* refused_for;  // what the message names; null: accepted
};
// NOLINTNEXTLINE(readability-identifier-naming): the name is GoogleTest's
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Launch : public testing::TestWithParam<Case> {};

TEST_P(Launch, IsJudgedByWhatTheNearestLauncherPromised) {
  const Case& c = GetParam();
  const auto environment = environment_of(c.variables);
  if (c.refused_for == nullptr) {
    EXPECT_NO_THROW(check_launch(c.world_size, environment));
    return;
  }
  try {
    check_launch(c.world_size, environment);
    ADD_FAILURE() << "accepted";
  } catch (const base::CommunicationError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::communication);
    EXPECT_THAT(error.what(), testing::HasSubstr(c.refused_for));
    EXPECT_THAT(error.what(), testing::HasSubstr(std::string(launch_advice())));
  }
}

const Variables kBatchShell = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}};

Variables with(Variables base, const Variables& more) {
  base.insert(more.begin(), more.end());
  return base;
}
Variables step(const char* tasks) {
  return with(kBatchShell, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", tasks}});
}

INSTANTIATE_TEST_SUITE_P(
    Table, Launch,
    testing::Values(
        Case{"bare", {}, 1, nullptr},  //
        Case{"mpirun", {{"OMPI_COMM_WORLD_SIZE", "4"}}, 4, nullptr},
        Case{"mpirun_of_another_mpi", {{"OMPI_COMM_WORLD_SIZE", "4"}}, 1, "OMPI_COMM_WORLD_SIZE=4"},
        Case{"mpiexec_of_another_mpi", {{"PMI_SIZE", "2"}}, 1, "PMI_SIZE=2"},
        Case{"flux_with_pmi", {{"FLUX_JOB_SIZE", "4"}, {"PMI_SIZE", "4"}}, 4, nullptr},
        Case{"flux_without_pmi", {{"FLUX_JOB_SIZE", "4"}}, 1, "FLUX_JOB_SIZE=4"},
        Case{"mpirun_in_a_task_of_flux", {{"OMPI_COMM_WORLD_SIZE", "4"}, {"FLUX_JOB_SIZE", "1"}}, 4, nullptr},
        Case{"pals", {{"PALS_RANKID", "0"}, {"PBS_JOBID", "7"}}, 4, nullptr},
        Case{"pals_with_sizes", {{"PALS_RANKID", "3"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}, 1, "PMI_SIZE=4"},
        Case{"single_programs_of_pals",
             {{"PALS_RANKID", "3"}, {"PMI_SIZE", ""}},
             1,
             "PALS_RANKID=3 promised at least 4"},
        Case{"single_programs_of_pmix", {{"PMIX_RANK", "1"}}, 1, "PMIX_RANK=1 promised at least 2"},
        Case{"first_single_program_of_a_host",
             {{"PALS_RANKID", "0"}, {"PALS_LOCAL_SIZE", "12"}},
             1,
             "PALS_LOCAL_SIZE=12 promised at least 12"},
        Case{"pals_with_pmix", {{"PMIX_RANK", "13"}, {"PALS_LOCAL_SIZE", "12"}}, 24, nullptr},
        Case{"one_rank_of_pals", {{"PALS_RANKID", "0"}, {"PALS_LOCAL_SIZE", "1"}}, 1, nullptr},
        Case{"hydra_in_a_task_of_flux",
             {{"MPI_LOCALRANKID", "0"}, {"PMI_SIZE", "4"}, {"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "1"}},
             1,
             "PMI_SIZE=4"},
        Case{"srun_with_pmix", step("2"), 2, nullptr},  //
        Case{"srun_without_pmix", step("2"), 1, "SLURM_STEP_NUM_TASKS=2"},
        Case{"srun_that_lost_half", step("4"), 2, "promised 4 ranks, but MPI found a world of 2"},
        Case{"srun_of_one_task_in_a_larger_job", step("1"), 1, nullptr},
        Case{"heterogeneous_step", step("2"), 6, nullptr},  //
        Case{"batch_shell_without_srun", kBatchShell, 1, "SLURM_NTASKS"},
        Case{"batch_shell_of_one_task", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}, 1, nullptr},
        Case{"batch_shell_without_task_count", {{"SLURM_PROCID", "0"}}, 1, nullptr},
        Case{"unreadable_task_count", {{"SLURM_NTASKS", ""}}, 1, nullptr},
        Case{"task_count_that_is_no_number", {{"SLURM_NTASKS", "4x"}}, 1, nullptr},
        Case{"mpirun_of_one_rank_in_a_job", with(kBatchShell, {{"OMPI_COMM_WORLD_SIZE", "1"}}), 1, nullptr},
        Case{"mpirun_whose_orted_srun_started", with(step("2"), {{"OMPI_COMM_WORLD_SIZE", "8"}}), 8, nullptr},
        Case{"unknown_launcher_in_a_job", kBatchShell, 4, nullptr}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Launch, TaskOfSrunWithoutPmixIsRefusedBeforeOpenMpiAborts) {
  EXPECT_THROW(check_pmix(environment_of(step("2"))), base::CommunicationError);
  EXPECT_THROW(check_pmix(environment_of(step("1"))), base::CommunicationError);
  // srun --mpi=pmi2, which the Open MPI of distributions does not support
  EXPECT_THROW(check_pmix(environment_of(with(step("2"), {{"PMI_RANK", "0"}, {"PMI_FD", "11"}}))),
               base::CommunicationError);
}

TEST(Launch, AShellOfSrunIsToldHowRanksAreHadInIt) {
  const auto said = [](const char* tasks) {
    try {
      check_pmix(environment_of(step(tasks)));
    } catch (const base::CommunicationError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(said("1"), testing::HasSubstr("srun --overlap --mpi=pmix"));
  EXPECT_THAT(said("2"), testing::Not(testing::HasSubstr("--overlap")));
}

TEST(Launch, MpiLibrariesAreNamedWhateverTheirForm) {
  EXPECT_EQ(name_of_library("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4"),
            "Open MPI v4.1.4");
  EXPECT_EQ(name_of_library("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7\nMPICH ABI:\t14:2:2\n"),
            "MPICH 4.0.2");
  EXPECT_EQ(name_of_library("Intel(R) MPI Library 2021.10 for Linux* OS\n"),
            "Intel(R) MPI Library 2021.10 for Linux* OS");
  EXPECT_EQ(name_of_library("MPI VERSION    : CRAY MPICH version 8.1.28 (ANL base 3.4a2)\nMPI BUILD INFO : Wed"),
            "CRAY MPICH 8.1.28");
  EXPECT_EQ(name_of_library("MPI VERSION"), "");
  EXPECT_EQ(name_of_library("MPICH Version:"), "MPICH ");
  EXPECT_EQ(name_of_library(""), "");
}

TEST(Launch, ABatchShellIsNoLauncher) {
  EXPECT_EQ(launched_rank(environment_of({})), std::nullopt);
  EXPECT_EQ(launched_rank(environment_of(kBatchShell)), std::nullopt);
  EXPECT_EQ(launched_rank(environment_of(with(step("2"), {{"PMIX_RANK", "1"}}))), "1");
  EXPECT_EQ(launched_rank(environment_of(step("2"))), "0");
  EXPECT_EQ(launched_rank(environment_of({{"OMPI_COMM_WORLD_RANK", "3"}})), "3");
  EXPECT_EQ(launched_rank(environment_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}})), "2");
  EXPECT_EQ(launched_rank(environment_of({{"PALS_RANKID", "2"}})), "2");
  EXPECT_EQ(launched_rank(environment_of({{"FLUX_TASK_RANK", "3"}})), "3");
  EXPECT_EQ(launched_rank(environment_of({{"PBS_JOBID", "7.server"}, {"FLUX_URI", "local:///run/flux"}})),
            std::nullopt);
}

TEST(Launch, ABareStartInAPbsJobOfSeveralPlacesIsRefused) {
  const auto judged = [](const char* nodes, Variables variables, int world_size) {
    const std::string path = testing::TempDir() + "launch_test_nodes";
    std::ofstream(path) << nodes;
    variables["PBS_NODEFILE"] = path;
    try {
      check_launch(world_size, environment_of(variables));
    } catch (const base::CommunicationError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(judged("cn01\ncn01\ncn02\ncn02\n", {}, 1),
              testing::AllOf(testing::HasSubstr("4 places"), testing::HasSubstr("PBS_NODEFILE"),
                             testing::HasSubstr("started bare as one rank"), testing::HasSubstr("mpiexec -n 1"),
                             testing::HasSubstr(std::string(launch_advice()))));
  EXPECT_EQ(judged("cn01\n", {}, 1), "accepted");
  EXPECT_EQ(judged("", {}, 1), "accepted");
  EXPECT_EQ(judged("cn01\ncn02\n", {{"PALS_RANKID", "0"}}, 1), "accepted");
  EXPECT_EQ(judged("cn01\ncn02\n", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, 1), "accepted");
  EXPECT_EQ(judged("cn01\ncn02\n", {}, 2), "accepted");  // by a launcher that is not known here
  EXPECT_NO_THROW(check_launch(1, environment_of({{"PBS_NODEFILE", "/no/such/file"}})));
}

TEST(Launch, TheLauncherIsNamed) {
  for (const auto& [variables, wanted] :
       {std::pair(Variables{}, "bare"), std::pair(Variables{{"PMI_SIZE", "2"}}, "mpiexec"),
        std::pair(Variables{{"PALS_RANKID", "0"}}, "mpiexec"), std::pair(Variables{{"PBS_JOBID", "7"}}, "bare"),
        std::pair(Variables{{"PMIX_RANK", "0"}}, "mpiexec"), std::pair(kBatchShell, "bare"),
        std::pair(Variables{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}}, "mpirun"),
        std::pair(Variables{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_ID", "f3"}, {"PMI_SIZE", "2"}}, "flux (job f3)"),
        std::pair(Variables{{"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "5"}}, "srun (job 5)"),
        std::pair(Variables{{"SLURM_STEP_ID", "0"}}, "srun (job ?)"),
        std::pair(with(step("2"), {{"PMIX_RANK", "0"}}), "srun (job 7)"),
        // srun --mpi=pmi2 or cray_shasta
        std::pair(with(step("2"), {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PALS_RANKID", "0"}}), "srun (job 7)"),
        // An mpirun or mpiexec whose daemons srun has started
        std::pair(with(step("2"), {{"OMPI_COMM_WORLD_SIZE", "8"}}), "mpirun"),
        std::pair(with(step("2"), {{"MPI_LOCALRANKID", "3"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "8"}}), "mpiexec")}) {
    EXPECT_EQ(launcher_name(environment_of(variables)), wanted);
  }
}

TEST(Launch, RanksOfAnMpiexecWhoseDaemonsSrunHasStartedAreNoTasksOfSrun) {
  const auto rank = environment_of(with(step("2"), {{"MPI_LOCALRANKID", "3"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "8"}}));
  EXPECT_FALSE(launched_by_srun(rank));
  EXPECT_EQ(launched_rank(rank), "3");
  EXPECT_TRUE(launched_by_srun(environment_of(with(step("2"), {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}))));
}

TEST(Launch, AJobHasANumberUnderAnyBatchSystem) {
  EXPECT_EQ(job_number(environment_of({})), "");
  EXPECT_EQ(job_number(environment_of(kBatchShell)), "7");
  EXPECT_EQ(job_number(environment_of({{"PBS_JOBID", "12.server"}})), "12.server");
  EXPECT_EQ(job_number(environment_of({{"FLUX_JOB_ID", "f3"}})), "f3");
  // A flux run inside of a job of flux batch
  EXPECT_EQ(job_number(environment_of({{"FLUX_JOB_ID", "f1"}, {"FLUX_ENCLOSING_ID", "f3"}})), "f3");
}

TEST(Launch, AJobKnowsHowOftenItHasComeBack) {
  EXPECT_EQ(job_restarts(environment_of(kBatchShell)), 0);
  EXPECT_EQ(job_restarts(environment_of(with(kBatchShell, {{"DDPM_RESTARTS", "3"}}))), 0);
  EXPECT_EQ(job_restarts(environment_of(with(kBatchShell, {{"SLURM_RESTART_COUNT", "2"}, {"DDPM_RESTARTS", "0"}}))), 2);
  EXPECT_EQ(job_restarts(environment_of({{"PBS_JOBID", "12.server"}, {"DDPM_RESTARTS", "3"}})), 3);
}

TEST(Launch, ATimeLimitIsANumberOfSeconds) {
  EXPECT_EQ(seconds_of(environment_of({}), "LIMIT", 900.0), 900.0);
  EXPECT_EQ(seconds_of(environment_of({{"LIMIT", ""}}), "LIMIT", 900.0), 900.0);
  EXPECT_EQ(seconds_of(environment_of({{"LIMIT", "0"}}), "LIMIT", 900.0), 0.0);
  EXPECT_EQ(seconds_of(environment_of({{"LIMIT", "2.5"}}), "LIMIT", 900.0), 2.5);
  for (const char* text : {"-1", "ten", "10s", "nan", "inf", " 3"}) {
    EXPECT_THROW(seconds_of(environment_of({{"LIMIT", text}}), "LIMIT", 900.0), base::ConfigError) << text;
  }
}

TEST(Launch, EveryWorkingStartMayCallMpiInit) {
  EXPECT_TRUE(lacks_pmix(environment_of(step("1"))));
  EXPECT_FALSE(lacks_pmix(environment_of(kBatchShell)));
  EXPECT_NO_THROW(check_pmix(environment_of({})));
  EXPECT_NO_THROW(check_pmix(environment_of(kBatchShell)));
  EXPECT_NO_THROW(check_pmix(environment_of(with(step("2"), {{"PMIX_RANK", "1"}}))));
  EXPECT_NO_THROW(check_pmix(environment_of(with(step("2"), {{"OMPI_COMM_WORLD_SIZE", "8"}}))));
}

}  // namespace
}  // namespace ddpm::comm
