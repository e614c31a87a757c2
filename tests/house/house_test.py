#!/usr/bin/env python3
"""The checks themselves: each kind of violation is found, and what is allowed is let through."""

import json
import tempfile
import unittest
from pathlib import Path

import build_commands
import header_check
import include_edges
import rooms
import source_check

TABLE = rooms.HEAD + """
|---|---|---|
| `base` | errors | – |
| `config` | keys | base |
| `comm` | MPI | base |
| `h5` | HDF5 | base, comm |
| `data` | images | base, comm, h5 |
| `data/prepare` | making sets | base, data |
| `nn` | UNet | base |
| `optim` | AdamW | base |
| `checkpoint` | files | base, comm |
| `observe` | metrics | base |
| `layout` | slices | base |
| `cuda` | kernels | base, nn |
| `train` | trainer | all above but h5, cuda |
| `plan` | plans | all above but h5, cuda |
| `cli` | main | all above |

The page goes on.
"""
ALLOWED = rooms.allowed_includes(TABLE)


def reasons(name, text):
    return [reason for _, reason in include_edges.violations_of(name, text, ALLOWED)]


class Rooms(unittest.TestCase):
    def test_a_row_names_rows_above_it(self):
        self.assertEqual(ALLOWED["base"], set())
        self.assertEqual(ALLOWED["h5"], {"base", "comm"})
        self.assertEqual(ALLOWED["train"], ALLOWED.keys() - {"h5", "cuda", "train", "plan", "cli"})
        self.assertEqual(ALLOWED["cli"], ALLOWED.keys() - {"cli"})
        with self.assertRaisesRegex(ValueError, "`base` names comm, which no row above it has"):
            rooms.allowed_includes(TABLE.replace("| errors | – |", "| errors | comm |"))
        with self.assertRaisesRegex(ValueError, "has no line"):
            rooms.allowed_includes("# Architecture\n")

    def test_circles_are_found(self):
        self.assertEqual(rooms.circles({"a": {"b"}, "b": {"c"}, "c": set()}), [])
        self.assertEqual(rooms.circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"e"}, "e": {"d"}}), [["b", "c"], ["d", "e"]])

    def test_a_header_and_its_source_are_one(self):
        edges = include_edges.stem_edges({"a/x.h": '#include "a/y.h"\n', "a/x.cpp": '#include "a/x.h"\n', "a/y.cpp": '#include "a/x.h"'})
        self.assertEqual(edges, {"a/x": {"a/y"}, "a/y": {"a/x"}})


class IncludeEdges(unittest.TestCase):
    def refused(self, name, text, part):
        found = reasons(name, text)
        self.assertEqual(len(found), 1, (name, text, found))
        self.assertIn(part, found[0])

    def accepted(self, name, text):
        self.assertEqual(reasons(name, text), [], (name, text))

    def test_edges_follow_the_table(self):
        self.accepted("nn/a.cpp", '#include "base/log.h"\n#include "nn/b.h"\n#include "config/schema.h"\n')
        self.refused("nn/a.cpp", '#include "comm/mpi_session.h"', "nn may not include")
        self.refused("base/a.h", '#include "config/resolve.h"', "it may include: nothing")
        self.refused("optim/a.h", '#include "config/toml_value.h"', "optim may not include")
        self.refused("nn/a.cpp", '#include "b.h"', "names no folder of src")
        self.refused("nn/a.cpp", '#include "../comm/mpi_session.h"', "names no folder of src")
        self.refused("new/a.cpp", "", "not in the table")
        self.accepted("data/prepare/a.cpp", '#include "data/format.h"')
        self.refused("data/a.cpp", '#include "data/prepare/create.h"', "data may not include")
        self.accepted("nn/a.cpp", '// #include "comm/mpi_session.h"\n/*\n#include "comm/mpi_session.h"\n*/')

    def test_mpi_and_nccl_belong_to_comm(self):
        self.accepted("comm/a.cpp", "#include <mpi.h>\nMPI_Barrier(c); ncclAllReduce(x);")
        self.refused("train/a.cpp", "MPI_Barrier(comm);", "only comm calls MPI")
        self.refused("train/a.cpp", "ncclGroupStart();", "only comm calls MPI and NCCL")
        self.refused("train/a.cpp", "#include <mpi.h>", "outside of comm")
        self.refused("h5/a.cpp", "H5Pset_fapl_mpio(l, MPI_COMM_WORLD, MPI_INFO_NULL);", "MPI_COMM_WORLD")
        self.accepted("train/a.cpp", 'say("MPI_Barrier"); // MPI_Barrier(c)')

    def test_hdf5_belongs_to_h5(self):
        self.accepted("h5/a.cpp", "#include <hdf5.h>\nH5Fopen(a, H5F_ACC_RDONLY, H5P_DEFAULT);")
        self.refused("data/a.cpp", "H5Dread(x);", "only h5 calls HDF5")
        self.refused("data/a.cpp", "f(H5F_ACC_RDONLY);", "only h5 calls HDF5")
        self.refused("data/a.cpp", "#include <hdf5.h>", "outside of h5")
        self.accepted("data/a.cpp", "const h5::File file; // H5Dread(x)")

    def test_cli11_is_compiled_once(self):
        self.accepted("cli/command_line.cpp", "#include <CLI/CLI.hpp>")
        self.refused("cli/command_line.h", "#include <CLI/CLI.hpp>", "outside of cli/command_line.cpp")
        self.refused("cli/train.cpp", "#include <CLI/App.hpp>", "outside of cli/command_line.cpp")

    def test_torch_stays_out_of_the_parsers(self):
        for folder in sorted(include_edges.WITHOUT_TORCH):
            self.refused(f"{folder}/a.h", "#include <ATen/core/Tensor.h>", "does without LibTorch")
        self.accepted("comm/nccl_communicator.cpp", "#include <c10/cuda/CUDAStream.h>")
        self.accepted("comm/gpu_memory.cpp", "#include <c10/cuda/CUDAGuard.h>")
        self.refused("comm/mpi_communicator.cpp", "#include <c10/cuda/CUDAStream.h>", "does without LibTorch")
        self.accepted("nn/a.h", "#include <ATen/core/Tensor.h>")

    def test_files_are_changed_in_base_only(self):
        self.accepted("base/a.cpp", "::rename(a, b); ::fsync(f);")
        self.accepted("data/a.cpp", "files.rename(a, b); files_.remove(x);")
        for call in ("std::ofstream out(p);", "::rename(a, b);", "std::filesystem::remove_all(p);", "::fsync(f);",
                     "opened(p, O_CREAT);", 'std::fopen(p, "w");'):
            self.refused("data/a.cpp", call, "creates, syncs, renames and removes files")

    def test_files_are_opened_and_looked_at_in_base_only(self):
        self.accepted("base/a.cpp", "::open(p, O_RDONLY); ::stat(p, &s);")
        self.accepted("plan/plan_request.cpp", 'std::ifstream file("/proc/self/statm");')
        self.accepted("data/a.cpp", "base::InputFile file(p); std::filesystem::absolute(p); Dataset::open(p); store.status();")
        for call in ("std::ifstream in(p);", "::open(p, O_RDONLY);", "std::filesystem::exists(p, error);",
                     "if (fs) std::filesystem::is_directory(p);", "auto n = std::filesystem::file_size(p);",
                     "for (auto& e : std::filesystem::directory_iterator(p))", "int n = ::stat(p, &s);"):  # fmt: skip
            self.refused("data/a.cpp", call, "base/input_file.h")

    def test_results_reach_stdout_by_one_way(self):
        self.accepted("base/standard_streams.cpp", "write(STDOUT_FILENO, p, n);")
        self.accepted("cli/a.cpp", 'std::fprintf(stderr, "x"); std::snprintf(p, n, "x"); fmt::print(stderr, "x"); // stdout')
        for call in ('std::printf("x");', "std::fputs(s, stdout);", "std::cout << 1;", 'fmt::print("x");', "isatty(STDOUT_FILENO);",
                     'std::puts("x");'):
            self.refused("cli/a.cpp", call, "writes to stdout")

    def test_lines_are_numbered_after_literals_and_comments(self):
        text = 'auto a = R"(\n"\n)"; /* \' \n */ char q = \'"\'; int n = 1\'000;\nMPI_Init(q);'
        self.assertEqual([line for line, _ in include_edges.violations_of("nn/a.cpp", text, ALLOWED)], [5])


class HeaderCheck(unittest.TestCase):
    def test_flags_lose_launcher_source_and_outputs(self):
        entry = {"file": "/r/src/a.cpp",
                 "command": "cmake -E env X=1 /usr/bin/ccache /usr/bin/c++ -DA=\\\"b\\\" -I/r/src -Wall -MD -MT a.o -MF a.d "
                            "-o a.o -c /r/src/a.cpp"}
        self.assertEqual(header_check.flags_of(entry), ["/usr/bin/c++", '-DA="b"', "-I/r/src", "-Wall"])

    def in_tree(self, header_text, source_text=None, flags="", together=False, changed=None):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name).resolve()
            folder = root / "src" / "x"
            folder.mkdir(parents=True)
            (folder / "a.h").write_text(header_text)
            (folder / "a.cpp").write_text(source_text or "int unused;\n")
            commands = header_check.Commands.__new__(header_check.Commands)
            commands.by_file = {folder / "a.cpp": {"file": str(folder / "a.cpp"), "directory": str(root), "together": together,
                                                   "command": f"g++ -std=c++20 {flags} -I{root}/src -c {folder}/a.cpp"}}
            commands.changed = None if changed is None else {folder / name for name in changed}
            return header_check.check(folder / "a.h", "x/a.h", commands, [root / "src"])

    def test_a_missing_include_is_found(self):
        kind, message = self.in_tree("#pragma once\nstd::string f();\n")
        self.assertEqual(kind, "failed")
        self.assertIn("does not compile alone", message)
        self.assertEqual(self.in_tree("#pragma once\n#include <string>\nstd::string f();\n")[0], "compiled")

    def test_a_header_included_first_is_proved_by_the_build(self):
        self.assertEqual(self.in_tree("#pragma once\n", '// what\n#include "x/a.h"\n#include <string>\n')[0], "proved")
        self.assertEqual(self.in_tree("#pragma once\n", '#include <string>\n#include "x/a.h"\n')[0], "compiled")

    def test_sources_that_are_compiled_together_prove_no_header(self):
        text, source = "#pragma once\n", '#include "x/a.h"\n'
        self.assertEqual(self.in_tree(text, source, together=True)[0], "compiled")
        self.assertEqual(self.in_tree(text, source, together=True, changed=["a.h"])[0], "compiled")
        self.assertEqual(self.in_tree(text, source, together=True, changed=["b.h"])[0], "left")
        self.assertEqual(self.in_tree(text, source, together=False, changed=["b.h"])[0], "proved")

    def test_a_source_that_is_compiled_with_others_has_their_command(self):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name).resolve()
            unity = root / "build" / "Unity" / "unity_0_cxx.cxx"
            unity.parent.mkdir(parents=True)
            unity.write_text(f'/* generated */\n\n#include "{root}/src/a.cpp"\n\n#include "{root}/src/b.cpp"\n')
            entries = [{"file": str(file), "directory": str(root), "command": f"g++ -c {file}"} for file in (unity, root / "src/c.cpp")]
            (root / "build" / "compile_commands.json").write_text(json.dumps(entries))
            found = build_commands.commands_by_source(root / "build", root)
        self.assertEqual({file.name: entry["together"] for file, entry in found.items()}, {"a.cpp": True, "b.cpp": True, "c.cpp": False})
        self.assertEqual(found[root / "src/b.cpp"]["command"], f"g++ -c {unity}")

    def test_code_for_gpus_is_left_to_its_compiler(self):
        self.assertEqual(self.in_tree("#pragma once\n__device__ int f();\n")[0], "absent")
        self.assertEqual(self.in_tree("#pragma once\nint f();  // as __device__\n")[0], "compiled")

    def test_every_header_is_guarded(self):
        self.assertIn("#pragma once", self.in_tree("int f();\n")[1])

    def test_what_a_precompiled_header_hides_is_found(self):
        hidden = "-include string -D cmake_pch"
        kind, message = self.in_tree("#pragma once\nstd::string f();\n", flags=hidden)
        self.assertEqual(kind, "failed")
        self.assertIn("uses std::string", message)
        self.assertIn("uses at::T", self.in_tree("#pragma once\nvoid f(const at::Tensor& x);\n", flags=hidden)[1])
        self.assertEqual(self.in_tree("#pragma once\n#include <string>\nstd::string f();\n", flags=hidden)[0], "compiled")


class SourceCheck(unittest.TestCase):
    def test_a_name_of_another_source_is_found(self):
        with tempfile.TemporaryDirectory() as name:
            unity = Path(name) / "unity_0_cxx.cxx"
            entry = {"file": str(unity), "directory": name, "command": f"g++ -std=c++20 -c {unity} -o a.o"}
            alone, leaning = Path(name) / "a.cpp", Path(name) / "b.cpp"
            alone.write_text("namespace { constexpr int kSide = 8; }\nint a() { return kSide; }\n")
            leaning.write_text("int b() { return kSide; }\n")
            self.assertIsNone(source_check.said_of(alone, entry))
            self.assertRegex(source_check.said_of(leaning, entry), r"b\.cpp does not compile alone:\n(.*\n)*.*kSide")


if __name__ == "__main__":
    unittest.main()
