// What most tests include, precompiled once.
#pragma once
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "std_pch.h"
