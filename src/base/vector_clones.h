// Functions compiled for several instruction sets, of which the processor that runs them decides. Files that use it are
// compiled with -ffp-contract=off, and each of their sums has one order, so that all versions give the same bytes.
#pragma once

/// Before a function's definition: its loops are vectorised for AVX2, too, and the loader picks the version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DDPM_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define DDPM_VECTOR_CLONES
#endif
