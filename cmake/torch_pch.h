// The LibTorch headers that most files need, precompiled once: they cost 15 to 20 s per file otherwise.
#pragma once
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "std_pch.h"
